package latchkey

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// foldString replaces string(x), which in expr prints anything: nil as "<nil>", maps in some order, pointers.
func (f *folder) foldString(n *ast.BuiltinNode, args []shape, m mode, what string) (ast.Node, shape) {
	if len(args) != 1 {
		return n, f.fail(n, "string takes one value", "")
	}
	bad := (*problem)(nil)
	args[0].each(func(s shape) {
		switch {
		case s.elem != nil || s.t != nil && textKindOf(s.t) == textList:
			bad = &problem{reason: "a list has no text", hint: "write map(…, string(#)) or join(…)"}
		case s.t != nil && textKindOf(s.t) == textNone && !isBytes(s.t):
			bad = scalarProblem(s.t, strings.TrimSuffix(strings.TrimPrefix(what, "string("), ")"))
		}
	})
	if bad != nil {
		return n, f.failf(n, bad)
	}
	return f.call(n, "string", typed(typeString), func(args ...any) (any, error) {
		v := reflect.ValueOf(args[0])
		if b, ok := args[0].([]byte); ok {
			v = reflect.ValueOf(string(b))
		} else if v.IsValid() && isBytes(v.Type()) && textKindOf(v.Type()) == textNone {
			v = reflect.ValueOf(string(bytesOf(v)))
		}
		text, fault := valueText(v, what)
		if fault != nil && fault.gone && m.blank && v.IsValid() && v.Kind() == reflect.String {
			return v.String(), nil
		}
		return optionally(text, fault, m)
	}, n.Arguments...), typed(typeString)
}

func isBytes(t reflect.Type) bool {
	t = derefType(t)
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8
}

func bytesOf(v reflect.Value) []byte {
	b := make([]byte, v.Len())
	reflect.Copy(reflect.ValueOf(b), v)
	return b
}

// foldToInt replaces int(x), which in expr wraps round and truncates what an int can't hold.
func (f *folder) foldToInt(n *ast.BuiltinNode, args []shape, m mode, what string) (ast.Node, shape) {
	if len(args) != 1 {
		return n, f.fail(n, "int takes one value", "")
	}
	if s := args[0]; !s.unknown() && !s.null {
		ok := true
		s.each(func(alt shape) {
			if alt.t == nil {
				ok = false
				return
			}
			t := vmType(alt.t)
			ok = ok && (isNumber(t) || t == typeString || t == typeDuration || isEnum(t))
		})
		if !ok {
			return n, f.fail(n, "int can't convert "+article(s.String()), "")
		}
	}
	return f.call(n, "int", typed(typeInt), func(args ...any) (any, error) {
		i, fault := toInt(reflect.ValueOf(args[0]), what)
		return optionally(i, fault, m)
	}, n.Arguments...), typed(typeInt)
}

func toInt(v reflect.Value, what string) (int, *faultError) {
	v, fault := deref(v, what)
	if fault != nil {
		return 0, fault
	}
	tooLarge := faultBad(what, "does not fit an int")
	switch {
	case v.CanInt():
		if i := int(v.Int()); int64(i) == v.Int() {
			return i, nil
		}
		return 0, tooLarge
	case v.CanUint():
		if v.Uint() <= math.MaxInt {
			return int(v.Uint()), nil //nolint:gosec // in range: see the line above
		}
		return 0, tooLarge
	case v.CanFloat():
		// Beyond 2^53 neighbouring integers are one float.
		if x := v.Float(); math.Abs(x) <= 1<<53 {
			return int(x), nil
		}
		return 0, tooLarge
	case v.Kind() == reflect.String:
		i, err := strconv.Atoi(strings.TrimSpace(v.String()))
		if err != nil {
			return 0, faultBad(what, "is given text that is no integer")
		}
		return i, nil
	}
	return 0, faultBad(what, "is given a "+v.Kind().String())
}

// foldGet replaces first(x), last(x) and get(x, i), which in expr yield nil where nothing is.
func (f *folder) foldGet(n *ast.BuiltinNode, args []shape, m mode) (ast.Node, shape) {
	want := 1
	if n.Name == "get" {
		want = 2
	}
	if len(args) != want {
		return n, f.fail(n, n.Name+" takes other arguments", "")
	}
	elem, p := indexed(args[0])
	if n.Name != "get" {
		var ok bool
		if elem, ok = args[0].element(); !ok {
			p = problemf("%s is no list", article(args[0].String()))
		}
	}
	if p != nil {
		return n, f.failf(n.Arguments[0], p)
	}
	nodes := n.Arguments
	if n.Name != "get" {
		at := &ast.IntegerNode{Value: map[string]int{"first": 0, "last": -1}[n.Name]}
		at.SetLocation(n.Location())
		nodes = []ast.Node{n.Arguments[0], at}
	}
	text := n.Name + "(…)"
	node := f.call(n, n.Name, elem, func(args ...any) (any, error) {
		v, fault := indexValue(args[0], args[1], text)
		return optionally(v, fault, m)
	}, nodes...)
	return f.emit(n, startOf(node, elem, text), m), elem
}
