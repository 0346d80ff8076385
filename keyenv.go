package latchkey

import (
	"context"
	"reflect"
	"unicode"
	"unsafe"
)

// KeyOption sets what a key template may refer to; see [CompileKey].
type KeyOption interface {
	applyKey(env *keyEnv)
}

// KeyVar is a name that a key template may use, and its type. Make one with [Var].
type KeyVar struct {
	name string
	typ  reflect.Type
	of   Members // nil: the members that Go knows
}

// Var declares a variable of a key template: name is what the template calls it, T its type.
//
//	latchkey.CompileKey("order:#{order.id}", latchkey.Var[Order]("order"))
//
// If T has the method KeyMember(name string) (V, bool), its members are looked up by that method when the key is made,
// V being their type: that is how a request's path, query or header becomes a variable. A member for which it reports
// false is missing, which is an error like a nil pointer.
func Var[T any](name string) KeyVar { return KeyVar{name: name, typ: reflect.TypeFor[T]()} }

// VarOf is [Var] for a type that is known only at run time.
func VarOf(name string, t reflect.Type) KeyVar { return KeyVar{name: name, typ: t} }

func (v KeyVar) applyKey(env *keyEnv) { env.vars = append(env.vars, v) }

// ctxVar is a value that a template reads from the call's context, as ctx.<name>.
type ctxVar struct {
	name string
	typ  reflect.Type
	get  func(ctx context.Context) unsafe.Pointer // points at a value of typ
}

func newCtxVar[T any](name string, f func(context.Context) T) ctxVar {
	return ctxVar{name: name, typ: reflect.TypeFor[T](), get: func(ctx context.Context) unsafe.Pointer {
		v := f(ctx)
		return unsafe.Pointer(&v)
	}}
}

// keyEnv is everything a template may refer to.
type keyEnv struct {
	vars    []KeyVar
	ctxVars map[string]ctxVar
	fnName  string // what #{fn} stands for
	fnErr   string // why #{fn} stands for nothing, if fnName is empty
	unnamed bool   // there are arguments, but they have no names
	maxKeys int    // most keys of a list template; 0 means defaultMaxKeys

	namespace string // stands before every key and is no part of it: not counted, not shortened
	prefix    string // literal text before the template
}

const defaultMaxKeys = 256

// roots returns the names a template may start a path with.
func (e *keyEnv) roots() []string {
	names := make([]string, 0, len(e.vars)+2)
	for _, v := range e.vars {
		if v.name == selfName {
			names = append(names, v.of.Names()...)
			continue
		}
		names = append(names, v.name)
	}
	if e.fnName != "" {
		names = append(names, rootFn)
	}
	if len(e.ctxVars) > 0 {
		names = append(names, rootCtx)
	}
	return names
}

func (e *keyEnv) varIndex(name string) int {
	for i, v := range e.vars {
		if v.name == name {
			return i
		}
	}
	return -1
}

// Names that templates give a meaning of their own.
const (
	rootFn  = "fn"
	rootCtx = "ctx"
)

// check reports a variable that no template could name.
func (e *keyEnv) check(src source) *KeyError {
	for i, v := range e.vars {
		switch {
		case v.typ == nil:
			return &KeyError{Template: src.text, Reason: "a KeyVar is made with Var"}
		case v.name == selfName && v.of != nil && len(e.vars) == 1:
		case !isName(v.name):
			return &KeyError{Template: src.text, Reason: quote(v.name) + " is no name for a variable",
				Hint: "use letters, digits and _, and no word of the expression language"}
		case v.name == rootFn || v.name == rootCtx:
			return &KeyError{Template: src.text, Reason: v.name + " has a meaning of its own and can't name a variable",
				Hint: "choose another name"}
		case e.varIndex(v.name) < i:
			return &KeyError{Template: src.text, Reason: "two variables are called " + v.name}
		}
	}
	for name := range e.ctxVars {
		if !isName(name) {
			return &KeyError{Template: src.text, Reason: quote(name) + " is no name for a value of the context"}
		}
	}
	return nil
}

// isName reports whether an expression can use s as a variable.
func isName(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	switch s {
	case "", "true", "false", "nil", "not", "in", "or", "and", "let", "if", "else",
		"matches", "contains", "startsWith", "endsWith":
		return false
	}
	return true
}
