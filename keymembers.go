package latchkey

import (
	"reflect"
)

// Members describes the members of a value that are no fields of its Go type: the headers of a request, the fields of a
// message whose type is known by a descriptor only. It is for adapters; see [Self]. Its values must be comparable.
type Members interface {
	// String names the described type in messages.
	String() string
	// Member resolves a name while a template is compiled. The error's text says why there is no such member.
	Member(name string) (Member, error)
	// Names are the names that a hint may propose; nil if they can't be known.
	Names() []string
}

// Member is a member that was found by [Members].
type Member struct {
	// Type is the Go type of the values that Get returns.
	Type reflect.Type
	// Of describes the members of that type or, if it is a list or a map, those of its elements. Nil: Go's own.
	Of Members
	// Get returns the member of v, a value of the type that was described, or a pointer to it if that is a struct.
	// Nil means that there is none, which is an error like a nil pointer unless ?? says otherwise. An error says that
	// there is no usable one; its text must not quote any value of the call. Get must be safe for concurrent use.
	Get func(v any) (any, error)
}

// Self declares the one variable of a template whose members are all that the template may start with. of describes
// them, t is the type of the value.
func Self(t reflect.Type, of Members) KeyVar { return KeyVar{name: selfName, typ: t, of: of} }

// selfName is no name that a template could write.
const selfName = "(self)"

// described resolves a member by its description.
func described(of Members, name string) (member, *problem) {
	found, err := of.Member(name)
	if err != nil {
		return member{}, &problem{reason: err.Error(), hint: nearest(name, of.Names())}
	}
	return member{kind: memberDescribed, name: name, typ: found.Type, of: found.Of, get: found.Get}, nil
}

// describedFrom gets the member of v from the adapter. It is code of somebody else: what it panics with ends here.
func (m *member) describedFrom(v reflect.Value, text string) (found reflect.Value, fault *faultError) {
	defer func() {
		if r := recover(); r != nil {
			fault = faultBad(text, "is looked up by code that panics")
		}
	}()
	if v.Kind() == reflect.Struct {
		v = addr(v)
	}
	out, err := m.get(v.Interface())
	switch {
	case err != nil:
		return found, &faultError{what: text, reason: err.Error(), cause: err}
	case out == nil:
		return found, faultGone(text, "is missing")
	}
	return reflect.ValueOf(out), nil
}

// self returns the variable whose members are the names of the template.
func (e *keyEnv) self() (KeyVar, bool) {
	if len(e.vars) == 1 && e.vars[0].name == selfName {
		return e.vars[0], true
	}
	return KeyVar{}, false
}

// fromSelf starts a path from a member of the variable that has no name.
func (f *folder) fromSelf(v KeyVar, name string) (*chain, *problem) {
	found, p := described(v.of, name)
	if p != nil {
		return nil, p
	}
	c := &chain{keyPath: keyPath{root: 0, typ: v.typ, text: v.of.String()}}
	return c.with(found, name), nil
}
