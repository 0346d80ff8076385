package latchkey

import (
	"context"
	"reflect"
	"strconv"
	"sync"
	"unsafe"
)

// keyCall is one call that a key is made for. args[i] points at a value of the i-th variable's type.
type keyCall struct {
	ctx  context.Context //nolint:containedctx // lives exactly as long as the call it belongs to
	args []unsafe.Pointer
}

// keyPath is a chain of members: param.order.id. It is strict: a nil, a missing map key, an index out of range is a
// fault, never a zero value that many calls would share.
type keyPath struct {
	root  int     // the variable it starts from; negative when it starts elsewhere
	ctx   *ctxVar // the value of the context it starts from
	typ   reflect.Type
	text  string // how the template writes the start
	steps []pathStep
}

// pathStep is a member with the path up to and including it, for faults.
type pathStep struct {
	member
	text string
}

// last returns the text of the whole path.
func (p *keyPath) last() string {
	if n := len(p.steps); n > 0 {
		return p.steps[n-1].text
	}
	return p.text
}

// start returns the value that a path over the call's arguments or context begins with.
func (p *keyPath) start(call *keyCall) (v reflect.Value, fault *faultError) {
	if p.ctx == nil {
		return reflect.NewAt(p.typ, call.args[p.root]).Elem(), nil
	}
	defer func() {
		if r := recover(); r != nil {
			fault = faultBad(p.text, "has an extractor that panics")
		}
	}()
	return reflect.NewAt(p.typ, p.ctx.get(call.ctx)).Elem(), nil
}

// walk follows the steps from v. What it returns is no pointer and not nil.
func (p *keyPath) walk(v reflect.Value) (reflect.Value, *faultError) {
	v, fault := deref(v, p.text)
	for i := 0; i < len(p.steps) && fault == nil; i++ {
		step := &p.steps[i]
		if v, fault = step.from(v, step.text); fault == nil {
			v, fault = deref(v, step.text)
		}
	}
	return v, fault
}

// from returns the member of v, which is no pointer and not nil. The member may be nil.
func (m *member) from(v reflect.Value, text string) (reflect.Value, *faultError) {
	switch m.kind {
	case memberField:
		return fieldOf(v, m.index, text)
	case memberMethod:
		if m.nth < 0 {
			return callMethod(addr(v).MethodByName(m.name), nil, text)
		}
		return callMethod(addr(v).Method(m.nth), nil, text)
	case memberMapKey:
		if e := v.MapIndex(m.key); e.IsValid() {
			return e, nil
		}
		return reflect.Value{}, faultGone(text, "is missing")
	case memberLookup:
		return lookUp(v, m.key, text)
	case memberDescribed:
		return m.describedFrom(v, text)
	case memberElement:
		return elementOf(v, int(m.key.Int()), text)
	default:
		found, err := dynamicMember(v.Type(), m.name)
		if err != nil {
			return reflect.Value{}, faultBad(text, "is no member of "+typeName(v.Type()))
		}
		return found.from(v, text)
	}
}

// fieldOf reads a field, through embedded structs that may be pointers.
func fieldOf(v reflect.Value, index []int, text string) (reflect.Value, *faultError) {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, faultGone(text, "is part of an embedded "+v.Type().Elem().Name()+" that is nil")
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, nil
}

// callMethod calls the user's code on the way to a value. What it panics with ends here, so that a lock that was taken
// before is not left behind.
func callMethod(f reflect.Value, args []reflect.Value, text string) (v reflect.Value, fault *faultError) {
	defer func() {
		if r := recover(); r != nil {
			fault = faultBad(text, "is a method that panics")
		}
	}()
	out := f.Call(args)
	if len(out) == 2 {
		if err, ok := reflect.TypeAssert[error](out[1]); ok && err != nil {
			return v, &faultError{what: text, reason: "is a method that failed", cause: err}
		}
	}
	return out[0], nil
}

// lookUp asks a value for its member by KeyMember.
func lookUp(v, name reflect.Value, text string) (found reflect.Value, fault *faultError) {
	defer func() {
		if r := recover(); r != nil {
			fault = faultBad(text, "is looked up by a method that panics")
		}
	}()
	out := addr(v).MethodByName("KeyMember").Call([]reflect.Value{name})
	if !out[1].Bool() {
		return found, faultGone(text, "is missing")
	}
	return out[0], nil
}

// elementOf returns an element of a list; negative positions count from the end.
func elementOf(v reflect.Value, i int, text string) (reflect.Value, *faultError) {
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return v, faultBad(text, "is not there: no list to take it from")
	}
	if i < 0 {
		i += v.Len()
	}
	if i < 0 || i >= v.Len() {
		return v, faultGone(text, "is missing: the list has "+strconv.Itoa(v.Len())+" elements")
	}
	return v.Index(i), nil
}

// dynamicMember is findMember with a memory, for names that are part of a template: those are few, and so are types.
func dynamicMember(t reflect.Type, name string) (member, *problem) {
	type key struct {
		t    reflect.Type
		name string
	}
	if t.Kind() == reflect.Map || t.Kind() == reflect.Interface {
		return findMember(t, name)
	}
	if m, ok := dynamicMembers.Load(key{t, name}); ok {
		return m.(member), nil //nolint:forcetypeassert // nothing else is stored
	}
	m, err := findMember(t, name)
	if err == nil {
		dynamicMembers.Store(key{t, name}, m)
	}
	return m, err
}

var dynamicMembers sync.Map
