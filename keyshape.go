package latchkey

import (
	"reflect"
	"strconv"
	"strings"
)

// shape is what is known of an expression's value before it runs. expr's own checker forgets the types of lists that
// builtins make, and of ?? and ?: whose sides differ; a key needs to know them all.
type shape struct {
	t    reflect.Type // nil if not known, or if one of the others is set
	of   Members      // describes t, or the elements of t; nil if Go's type does
	alts []shape      // one of several
	elem *shape       // a list made by the expression, of these
	null bool         // nil
}

func typed(t reflect.Type) shape {
	if t == nil || t == typeAny {
		return shape{}
	}
	return shape{t: t}
}

// describedBy is the shape of a member or element whose description is of.
func (s shape) describedBy(of Members) shape {
	if s.t != nil {
		s.of = of
	}
	return s
}

func listOf(elem shape) shape { return shape{elem: &elem} }

// either is the shape of a value that has one shape or the other.
func either(a, b shape) shape {
	alts := make([]shape, 0, len(a.alts)+len(b.alts)+2)
	for _, s := range []shape{a, b} {
		if s.alts == nil {
			s.alts = []shape{s}
		}
		for _, alt := range s.alts {
			if !containsShape(alts, alt) {
				alts = append(alts, alt)
			}
		}
	}
	if len(alts) == 1 {
		return alts[0]
	}
	return shape{alts: alts}
}

func containsShape(list []shape, s shape) bool {
	for _, have := range list {
		if have.same(s) {
			return true
		}
	}
	return false
}

func (s shape) same(o shape) bool {
	if s.t != o.t || s.of != o.of || s.null != o.null || len(s.alts) != len(o.alts) || (s.elem == nil) != (o.elem == nil) {
		return false
	}
	for i := range s.alts {
		if !s.alts[i].same(o.alts[i]) {
			return false
		}
	}
	return s.elem == nil || s.elem.same(*o.elem)
}

// unknown reports whether nothing is known of the value, or of one of its alternatives.
func (s shape) unknown() bool {
	for _, alt := range s.alts {
		if alt.unknown() {
			return true
		}
	}
	return s.alts == nil && s.elem == nil && !s.null && (s.t == nil || derefType(s.t).Kind() == reflect.Interface)
}

// each calls f for every alternative.
func (s shape) each(f func(shape)) {
	if s.alts == nil {
		f(s)
	}
	for _, alt := range s.alts {
		alt.each(f)
	}
}

// element is the shape of a list's elements. ok is false if the value is certainly no list.
func (s shape) element() (elem shape, ok bool) {
	switch {
	case s.elem != nil:
		return *s.elem, true
	case s.alts != nil:
		for i, alt := range s.alts {
			e, isList := alt.element()
			if !isList {
				return shape{}, false
			}
			if i == 0 {
				elem = e
			} else {
				elem = either(elem, e)
			}
		}
		return elem, true
	case s.t == nil:
		return shape{}, !s.null
	}
	switch t := derefType(s.t); t.Kind() {
	case reflect.Slice, reflect.Array:
		return typed(t.Elem()).describedBy(s.of), true
	case reflect.Interface:
		return shape{}, true
	}
	return shape{}, false
}

// vmType is the type that values of this shape have in the expression VM; see boxed.
func (s shape) vmType() reflect.Type {
	switch {
	case s.elem != nil:
		return reflect.TypeFor[[]any]()
	case s.t == nil:
		return typeAny
	}
	return vmType(s.t)
}

// vmType is the type under which a value of type t is handed to the VM. Named strings and numbers become plain ones, also
// in lists, so that they compare with literals: expr would find Status("paid") != "paid". Structs become pointers, which
// saves copying them and keeps their methods.
func vmType(t reflect.Type) reflect.Type {
	t = derefType(t)
	switch kind := textKindOf(t); {
	case t == typeTime || t == typeDuration:
		return t
	case t.Kind() == reflect.Struct:
		return reflect.PointerTo(t)
	case t.Kind() == reflect.Interface:
		return typeAny
	case kind == textMarshal || kind == textEnum:
		return t
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		if elem, ok := plainTypes[t.Elem().Kind()]; ok && elem != t.Elem() && vmType(t.Elem()) == elem {
			return reflect.SliceOf(elem)
		}
		return t
	}
	if plain, ok := plainTypes[t.Kind()]; ok {
		return plain
	}
	return t
}

var plainTypes = func() map[reflect.Kind]reflect.Type {
	types := make(map[reflect.Kind]reflect.Type)
	for _, v := range []any{
		"", false, float32(0), float64(0), int(0), int8(0), int16(0), int32(0), int64(0),
		uint(0), uint8(0), uint16(0), uint32(0), uint64(0),
	} {
		t := reflect.TypeOf(v)
		types[t.Kind()] = t
	}
	return types
}()

// boxed returns v, which is no pointer and not nil, as the VM gets it.
func boxed(v reflect.Value) any {
	switch t := vmType(v.Type()); {
	case t == v.Type():
		return v.Interface()
	case t.Kind() == reflect.Pointer:
		return addr(v).Interface()
	case t.Kind() == reflect.Slice:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return reflect.Zero(t).Interface()
		}
		list := reflect.MakeSlice(t, v.Len(), v.Len())
		for i := range v.Len() {
			list.Index(i).Set(v.Index(i).Convert(t.Elem()))
		}
		return list.Interface()
	default:
		return v.Convert(t).Interface()
	}
}

// wide reports whether expr's arithmetic, which is done in int, could change a value of type t.
func wide(t reflect.Type) bool {
	if t == nil || t == typeDuration {
		return false
	}
	switch t = derefType(t); t.Kind() {
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return t.Bits() >= strconv.IntSize
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return t.Bits() > strconv.IntSize
	}
	return false
}

// anyWide reports whether one of the alternatives is wide.
func (s shape) anyWide() (is bool) {
	s.each(func(alt shape) { is = is || wide(alt.t) })
	return is
}

// all reports whether every alternative is a known type that satisfies is.
func (s shape) all(is func(reflect.Type) bool) bool {
	ok := true
	s.each(func(alt shape) { ok = ok && alt.t != nil && is(vmType(alt.t)) })
	return ok
}

func isNumber(t reflect.Type) bool {
	return t.PkgPath() == "" && t.ConvertibleTo(typeFloat)
}

// String names the shape in messages.
func (s shape) String() string {
	switch {
	case s.null:
		return "nil"
	case s.elem != nil:
		return "list of " + s.elem.String()
	case s.alts != nil:
		texts := make([]string, len(s.alts))
		for i, alt := range s.alts {
			texts[i] = alt.String()
		}
		return strings.Join(texts, " or ")
	case s.of != nil && derefType(s.t).Kind() == reflect.Struct:
		return s.of.String()
	}
	return typeName(s.t)
}
