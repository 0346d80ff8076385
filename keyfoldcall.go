package latchkey

import (
	"reflect"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// method resolves a call: param.At.Format("2006"). Functions of expr are another kind of node and don't come here.
func (f *folder) method(n *ast.CallNode, m mode) (c *chain, done bool) {
	callee, ok := n.Callee.(*ast.MemberNode)
	if !ok {
		name := sourceText(n.Callee)
		f.fail(n, "unknown function "+name, nearest(name, builtin.Names))
		return &chain{base: n}, true
	}
	prop, ok := callee.Property.(*ast.StringNode)
	if !ok {
		f.fail(n, "only a method can be called", "")
		return &chain{base: n}, true
	}
	text := sourceText(callee.Node)
	if c, done = f.chain(callee.Node, m); done {
		c = startOf(c.base, c.shape, text)
	}
	if f.err != nil {
		return c, false
	}
	if len(n.Arguments) == 0 {
		return f.getter(callee, c, prop.Value), false
	}
	t, ok := f.single(callee, c)
	if !ok {
		return c, false
	}
	found, ok := methodOf(t, prop.Value)
	result := reflect.Type(nil)
	if ok {
		result = resultOf(found.Type)
	}
	if result == nil {
		f.fail(prop, typeName(t)+" has no method "+prop.Value+" that returns a value", "")
		return c, false
	}
	return f.callWith(n, c, m, t, found, typed(result)), false
}

// getter adds a call without arguments, which is the same as a member of that name, if it is a method.
func (f *folder) getter(n *ast.MemberNode, c *chain, name string) *chain {
	before := len(c.steps)
	c = f.named(n, c, name)
	if f.err == nil && len(c.steps) > before && c.steps[before].kind != memberMethod {
		f.fail(n.Property, name+" is no method", "leave out the parentheses")
	}
	return c
}

// callWith adds a call with arguments.
func (f *folder) callWith(n *ast.CallNode, c *chain, m mode, t reflect.Type, found reflect.Method, result shape) *chain {
	text := c.name() + "." + found.Name + "(…)"
	in := 1
	if t.Kind() == reflect.Interface {
		in = 0
	}
	if found.Type.IsVariadic() || len(n.Arguments) != found.Type.NumIn()-in {
		f.fail(n, found.Name+" takes other arguments: "+strings.TrimPrefix(found.Type.String(), "func"), "")
		return c
	}
	nodes := []ast.Node{f.emit(n, c, m)}
	types := make([]reflect.Type, len(n.Arguments))
	for i, arg := range n.Arguments {
		types[i] = found.Type.In(in + i)
		folded, s := f.fold(arg, mode{blank: true})
		if s.t != nil && !convertible(vmType(s.t), types[i]) {
			f.fail(arg, found.Name+" takes "+article(typeName(types[i]))+" here, not "+article(s.String()), "")
			return c
		}
		nodes = append(nodes, folded)
	}
	node := f.call(n, "method", result, func(args ...any) (any, error) {
		v, fault := deref(reflect.ValueOf(args[0]), text)
		if fault != nil {
			return optionally(nil, fault, m)
		}
		values := make([]reflect.Value, len(types))
		for i, t := range types {
			if values[i], fault = convertTo(reflect.ValueOf(args[i+1]), t, text); fault != nil {
				return nil, fault
			}
		}
		out, fault := callMethod(addr(v).MethodByName(found.Name), values, text)
		if fault != nil {
			return nil, fault
		}
		return out.Interface(), nil
	}, nodes...)
	return startOf(node, result, text)
}

// optionally is the answer of a function that found nothing.
func optionally(v any, fault *faultError, m mode) (any, error) {
	if fault == nil {
		return v, nil
	}
	if fault.gone && m.optional {
		return nil, nil
	}
	return nil, fault
}

// index resolves x[expr]: the position in a list or the key of a map is found when the key is made.
func (f *folder) index(n *ast.MemberNode, c *chain, m mode) *chain {
	text := c.name() + "[…]"
	base := c.shape
	elem, p := indexed(base)
	if p != nil {
		f.failf(n, p)
		return c
	}
	node := f.emit(n.Node, c, m)
	prop, s := f.fold(n.Property, strict)
	if base.t != nil && f.err == nil {
		t := derefType(base.t)
		if t.Kind() == reflect.Map && s.t != nil && !convertible(vmType(s.t), t.Key()) {
			f.fail(n.Property, "the keys of "+typeName(t)+" are of type "+typeName(t.Key())+", not "+s.String(), "")
		}
	}
	return startOf(f.call(n, "index", elem, func(args ...any) (any, error) {
		v, fault := indexValue(args[0], args[1], text)
		return optionally(v, fault, m)
	}, node, prop), elem, text)
}

// indexed returns the shape of x[…] for an x of the given shape.
func indexed(s shape) (shape, *problem) {
	if s.unknown() {
		return shape{}, nil
	}
	if elem, ok := s.element(); ok {
		return elem, nil
	}
	if s.t != nil {
		t := derefType(s.t)
		if typ, ok := lookupType(t); ok {
			return typed(typ), nil
		}
		switch t.Kind() {
		case reflect.Map:
			return typed(t.Elem()).describedBy(s.of), nil
		case reflect.Struct:
			name := typeName(t)
			if s.of != nil {
				name = s.of.String()
			}
			return shape{}, &problem{reason: "a member of " + name + " must be named in the template", hint: ""}
		}
	}
	return shape{}, problemf("%s has no elements", article(s.String()))
}

func indexValue(base, key any, text string) (any, *faultError) {
	v, fault := deref(reflect.ValueOf(base), text)
	if fault != nil {
		return nil, fault
	}
	k, fault := deref(reflect.ValueOf(key), text)
	if fault != nil {
		return nil, fault
	}
	var found reflect.Value
	switch _, looksUp := lookupType(v.Type()); {
	case looksUp && k.Kind() == reflect.String:
		found, fault = lookUp(v, k, text)
	case v.Kind() == reflect.Map:
		if k, fault = convertTo(k, v.Type().Key(), text); fault == nil {
			found, fault = (&member{kind: memberMapKey, key: k}).from(v, text)
		}
	case k.Kind() == reflect.String:
		// The name is a value of the call: it is neither remembered nor told in a message.
		m, p := findMember(v.Type(), k.String())
		if p != nil {
			return nil, faultBad(text, "is no member of "+typeName(v.Type()))
		}
		found, fault = m.from(v, text)
	default:
		if k, fault = convertTo(k, typeInt, text); fault == nil {
			found, fault = elementOf(v, int(k.Int()), text)
		}
	}
	if fault != nil {
		return nil, fault
	}
	return found.Interface(), nil
}

// convertible reports whether a value of the VM can become a t without changing: strings become named strings, and
// integers other integers if they fit.
func convertible(from, t reflect.Type) bool {
	return from == typeAny || from.AssignableTo(t) || from.Kind() == t.Kind() && from.ConvertibleTo(t) ||
		isInt(from) && isInt(t)
}

func isInt(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

func convertTo(v reflect.Value, t reflect.Type, text string) (reflect.Value, *faultError) {
	switch {
	case !v.IsValid():
		return v, faultGone(text, "is given nil")
	case v.Type().AssignableTo(t):
		return v, nil
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem().AssignableTo(t):
		return v.Elem(), nil // the VM holds structs as pointers
	case isInt(v.Type()) && isInt(t):
		if out := v.Convert(t); sameInt(v, out) {
			return out, nil
		}
		return v, faultBad(text, "is given an integer that does not fit "+typeName(t))
	case v.Kind() == t.Kind() && v.CanConvert(t):
		return v.Convert(t), nil
	}
	return v, faultBad(text, "is given a "+v.Kind().String()+", not a "+typeName(t))
}

// sameInt compares integers of any two types.
func sameInt(a, b reflect.Value) bool { return compareInts(a, b) == 0 }

func compareInts(a, b reflect.Value) int {
	switch {
	case a.CanInt() && b.CanInt():
		return compare(a.Int(), b.Int())
	case a.CanUint() && b.CanUint():
		return compare(a.Uint(), b.Uint())
	case a.CanInt():
		if a.Int() < 0 {
			return -1
		}
		return compare(uint64(a.Int()), b.Uint()) //nolint:gosec // not negative: see the lines above
	}
	return -compareInts(b, a)
}

func compare[T int64 | uint64 | float64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
