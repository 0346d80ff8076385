package latchkey

import (
	"reflect"

	"github.com/expr-lang/expr/ast"
)

// refused are the functions of expr that have no place in a key, with what to do instead. Whatever is not a function of
// its arguments alone would lock something else in the next call, or in another process.
var refused = map[string]string{
	"now":       "a key must not depend on the clock; pass the time as an argument",
	"date":      "it reads zone names by the machine's own zone; pass a time.Time as an argument",
	"timezone":  "it depends on the machine's zone files; a time is written in UTC",
	"keys":      "a map has no order; name the entries, or pass a sorted list",
	"values":    "a map has no order; name the entries, or pass a sorted list",
	"toPairs":   "a map has no order; name the entries, or pass a sorted list",
	"fromPairs": "a map is no key; name the value itself",
	"groupBy":   "a map is no key; filter the list instead",
	"toJSON":    "the text changes with every field that is added; name the members that matter",
	"fromJSON":  "it reads large numbers as floats, which are not exact; decode the text before the call",
	"type":      "types are known when the template is compiled",
}

// optionalBuiltins are those that may find nothing, or hand on nothing under ??.
var optionalBuiltins = map[string]bool{
	"first": true, "last": true, "find": true, "findLast": true, "findIndex": true, "findLastIndex": true,
	"get": true, "min": true, "max": true, "string": true, "int": true,
}

// results are the types that expr's functions yield whatever they are given.
var results = map[string]reflect.Type{
	"all": typeBool, "none": typeBool, "any": typeBool, "one": typeBool, "count": typeInt,
	"findIndex": typeInt, "findLastIndex": typeInt, "len": typeInt,
	"ceil": typeFloat, "floor": typeFloat, "round": typeFloat, "float": typeFloat, "mean": typeFloat, "median": typeFloat,
	"trim": typeString, "trimPrefix": typeString, "trimSuffix": typeString, "upper": typeString, "lower": typeString,
	"replace": typeString, "repeat": typeString, "join": typeString, "toBase64": typeString, "fromBase64": typeString,
	"indexOf": typeInt, "lastIndexOf": typeInt, "hasPrefix": typeBool, "hasSuffix": typeBool,
	"split": reflect.TypeFor[[]string](), "splitAfter": reflect.TypeFor[[]string](), "duration": typeDuration,
	"bitand": typeInt, "bitor": typeInt, "bitxor": typeInt, "bitnand": typeInt, "bitnot": typeInt,
	"bitshl": typeInt, "bitshr": typeInt, "bitushr": typeInt,
}

// exactBuiltins calculate in int or float64.
var exactBuiltins = map[string]bool{
	"abs": true, "min": true, "max": true, "sum": true, "mean": true, "median": true, "ceil": true, "floor": true,
	"round": true, "bitand": true, "bitor": true, "bitxor": true, "bitnand": true, "bitnot": true, "bitshl": true,
	"bitshr": true, "bitushr": true, "float": true,
}

func (f *folder) foldBuiltin(n *ast.BuiltinNode, m mode) (ast.Node, shape) {
	if why, ok := refused[n.Name]; ok {
		return n, f.fail(n, n.Name+" can't be used in a key", why)
	}
	switch n.Name {
	case "all", "none", "any", "one", "filter", "map", "count", "find", "findIndex", "findLast", "findLastIndex",
		"sum", "sortBy", "reduce":
		return f.foldPredicate(n, m)
	}
	args := make([]shape, len(n.Arguments))
	text := sourceText(n) // while it is still what the user wrote
	inner := mode{blank: m.blank}
	if optionalBuiltins[n.Name] {
		inner.optional = m.optional
	}
	for i := range n.Arguments {
		n.Arguments[i], args[i] = f.fold(n.Arguments[i], inner)
		f.exact(n, n.Arguments[i], args[i])
	}
	if f.err != nil {
		return n, shape{}
	}
	switch n.Name {
	case "string":
		return f.foldString(n, args, inner, text)
	case "int":
		return f.foldToInt(n, args, inner, text)
	case "first", "last", "get":
		return f.foldGet(n, args, inner)
	case "min", "max":
		var s shape
		for i, arg := range args {
			if e := elementOrSelf(arg); i == 0 {
				s = e
			} else {
				s = either(s, e)
			}
		}
		return f.found(n, s, inner)
	case "abs", "take":
		if len(args) > 0 {
			return n, args[0]
		}
	case "uniq", "reverse", "sort", "concat", "flatten":
		return n, f.foldLists(n, args)
	}
	return n, typed(results[n.Name])
}

// exact refuses numbers that a function would change, and pointers to numbers, which it doesn't know.
func (f *folder) exact(n *ast.BuiltinNode, at ast.Node, s shape) {
	if !exactBuiltins[n.Name] || f.err != nil {
		return
	}
	elem := elementOrSelf(s)
	if elem.anyWide() {
		f.failf(at, wideProblem(elem))
		return
	}
	// Pointers in a list stay what they are, see vmType; elsewhere they have been followed.
	if t := elem.t; t != nil && t.Kind() == reflect.Pointer && s.t != nil && derefType(s.t) != derefType(t) {
		f.fail(at, n.Name+" takes numbers, not "+typeName(t), "follow them: map(…, #)")
	}
}

// foldLists finds the elements of what a function makes out of lists.
func (f *folder) foldLists(n *ast.BuiltinNode, args []shape) shape {
	var s shape
	for i, arg := range args {
		if n.Name == "sort" && i > 0 {
			break // the order
		}
		e, ok := arg.element()
		if !ok {
			return f.fail(n.Arguments[i], article(arg.String())+" is no list", "")
		}
		if n.Name == "flatten" {
			for inner, ok := e.list(); ok; inner, ok = e.list() {
				e = inner
			}
		}
		if i == 0 {
			s = e
		} else {
			s = either(s, e)
		}
	}
	return listOf(s)
}

// list is element for what is known to be a list.
func (s shape) list() (shape, bool) {
	if s.unknown() || s.t != nil && textKindOf(s.t) != textList {
		return shape{}, false
	}
	return s.element()
}

func elementOrSelf(s shape) shape {
	if e, ok := s.list(); ok {
		return e
	}
	return s
}

// found wraps what may have found nothing, so that nothing is a fault.
func (f *folder) found(n *ast.BuiltinNode, s shape, m mode) (ast.Node, shape) {
	return f.emit(n, startOf(n, s, n.Name+"(…)"), m), s
}

// foldPredicate folds the functions that look at every element of a list.
func (f *folder) foldPredicate(n *ast.BuiltinNode, m mode) (ast.Node, shape) {
	if n.Name == "sum" && len(n.Arguments) == 1 { // sum(x, #), whose elements are made plain
		at := n.Location()
		each, self := &ast.PredicateNode{}, &ast.PointerNode{}
		each.Node = self
		each.SetLocation(at)
		self.SetLocation(at)
		n.Arguments = append(n.Arguments, each)
	}
	list, elem := f.foldList(n.Arguments[0], m)
	n.Arguments[0] = list
	scope := predicateScope{elem: elem}
	if len(n.Arguments) == 3 { // the start of reduce, the order of sortBy
		n.Arguments[2], scope.acc = f.fold(n.Arguments[2], mode{blank: m.blank})
	} else if n.Name == "reduce" {
		scope.acc = elem
	}
	result := elem
	if len(n.Arguments) > 1 {
		if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
			inner := condition
			if n.Name == "map" || n.Name == "sum" || n.Name == "reduce" {
				inner = mode{blank: m.blank}
			}
			f.scopes = append(f.scopes, scope)
			p.Node, result = f.fold(p.Node, inner)
			f.scopes = f.scopes[:len(f.scopes)-1]
		}
	}
	if f.err != nil {
		return n, shape{}
	}
	f.exact(n, n, result)
	switch n.Name {
	case "filter", "sortBy":
		return n, listOf(elem)
	case "map":
		return n, listOf(result)
	case "sum":
		if result.all(isInt) {
			result = typed(typeInt)
		}
		return n, result
	case "find", "findLast":
		return f.found(n, elem, m)
	case "findIndex", "findLastIndex":
		return f.found(n, typed(typeInt), m)
	case "reduce":
		return f.found(n, either(scope.acc, result), m)
	}
	return n, typed(results[n.Name])
}
