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

// vmType is the type under which a value of type t is handed to the VM. Named strings and numbers become plain ones, so
// that they compare with literals: expr would find Status("paid") != "paid". Structs become pointers, which saves
// copying them and keeps their methods.
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
		text := s.alts[0].String()
		for _, alt := range s.alts[1:] {
			text += " or " + alt.String()
		}
		return text
	case s.of != nil && derefType(s.t).Kind() == reflect.Struct:
		return s.of.String()
	}
	return typeName(s.t)
}

// textProblem says why values of this shape can't be a key's text, or nil. list tells whether they make one key for
// each element.
func (s shape) textProblem(path string) (list bool, p *problem) {
	if s.alts != nil {
		lists := 0
		for _, alt := range s.alts {
			isList, p := alt.textProblem(path)
			if p != nil {
				return false, p
			}
			if isList {
				lists++
			}
		}
		if lists > 0 && lists < len(s.alts) {
			return false, &problem{reason: "it is a list in one case and a single value in another: " + s.String()}
		}
		return lists > 0, nil
	}
	if s.null {
		return false, nil // a fault at run time, if it gets there
	}
	if s.elem == nil && (s.t == nil || textKindOf(s.t) != textList) {
		if s.of != nil && derefType(s.t).Kind() == reflect.Struct && textKindOf(s.t) == textNone {
			return false, describedProblem(s.of, path)
		}
		return false, scalarProblem(s.t, path)
	}
	elem, _ := s.element()
	isList, p := elem.textProblem(path + "[…]")
	switch {
	case p != nil && elem.t != nil && derefType(elem.t).Kind() == reflect.Struct:
		hint := "write map(" + path + ", .X) for one key per element"
		names := textMembers(derefType(elem.t))
		if elem.of != nil {
			names = elem.of.Names()
		}
		if len(names) > 0 {
			hint = "write map(" + path + ", ." + names[0] + ") for one key per element"
		}
		return true, &problem{reason: "the elements of this list have no text: " + p.reason, hint: hint}
	case p != nil:
		return true, &problem{reason: "the elements of this list have no text: " + p.reason,
			hint: "convert them: map(" + path + ", …)"}
	case isList:
		return true, &problem{reason: "a list of lists", hint: "write flatten(…) for one key per innermost element"}
	}
	return true, nil
}

// describedProblem says that a value which an adapter describes has no text of its own.
func describedProblem(of Members, path string) *problem {
	p := &problem{reason: of.String() + " has no text of its own", hint: "name one of its members"}
	if names := of.Names(); len(names) > 0 {
		p.hint += ": " + path + "." + strings.Join(names[:min(len(names), 3)], ", "+path+".")
	}
	return p
}

// scalarProblem says why a value of type t has no text, or nil.
func scalarProblem(t reflect.Type, path string) *problem {
	if t == nil || textKindOf(t) == textUnknown {
		return &problem{
			reason: "the type of this is not known before the call" + ofType(t),
			hint:   "convert it: string(" + path + ") or int(" + path + ")",
		}
	}
	if kind := textKindOf(t); kind != textNone && kind != textList {
		return nil
	}
	t = derefType(t)
	p := &problem{reason: "a " + typeName(t) + " has no exact text"}
	_, stringer := reflect.PointerTo(t).MethodByName("String")
	switch {
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		p.hint = "convert it: int(" + path + "), or int(round(" + path + " * 100)) for two decimals"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		p.hint = "if it holds text, write string(" + path + ")"
	case stringer:
		p.hint = "its String method may print anything; if it is exact and stable, write " + path + ".String()"
	case t.Kind() == reflect.Map:
		p.hint = "name one of its entries: " + path + `["…"]`
	case t.Kind() == reflect.Struct:
		p.hint = "name one of its members"
		if names := textMembers(t); len(names) > 0 {
			p.hint += ": " + path + "." + strings.Join(names, ", "+path+".")
		}
	}
	return p
}

func ofType(t reflect.Type) string {
	if t == nil || t == typeAny {
		return ""
	}
	return " (it is a " + typeName(t) + ")"
}

// textMembers names the first members of t that have a text.
func textMembers(t reflect.Type) []string {
	const most = 3
	var names []string
	for _, c := range candidatesOf(t) {
		if len(names) < most && !c.hidden && !c.args && !c.method && c.depth == 0 && scalarProblem(c.typ, "") == nil {
			names = append(names, c.name)
		}
	}
	return names
}
