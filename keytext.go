package latchkey

import (
	"encoding"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey/internal/keyenc"
)

// textKind is the way a value of some type becomes text. Types that have no exact, stable text have none: a key made
// from a pointer's address or a float's digits locks something else every time.
type textKind uint8

const (
	textNone    textKind = iota // no text
	textUnknown                 // an interface: what is in it shows at run time
	textString
	textInt
	textUint
	textBool
	textTime
	textEnum    // a protobuf enum, by name
	textMarshal // encoding.TextMarshaler
	textList    // one key for each element
)

var (
	typeAny      = reflect.TypeFor[any]()
	typeBool     = reflect.TypeFor[bool]()
	typeInt      = reflect.TypeFor[int]()
	typeFloat    = reflect.TypeFor[float64]()
	typeString   = reflect.TypeFor[string]()
	typeBytes    = reflect.TypeFor[[]byte]()
	typeTime     = reflect.TypeFor[time.Time]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeError    = reflect.TypeFor[error]()
	typeMarshal  = reflect.TypeFor[encoding.TextMarshaler]()
)

// textKindOf says how a value of type t becomes text. Pointers count as what they point at.
func textKindOf(t reflect.Type) textKind {
	t = derefType(t)
	switch {
	case t == typeTime:
		return textTime
	case isEnum(t):
		return textEnum
	case t.Implements(typeMarshal), reflect.PointerTo(t).Implements(typeMarshal):
		return textMarshal
	}
	switch t.Kind() {
	case reflect.String:
		return textString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if isStringer(t) {
			return textNone
		}
		return textInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if isStringer(t) {
			return textNone
		}
		return textUint
	case reflect.Bool:
		return textBool
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return textNone
		}
		return textList
	case reflect.Interface:
		return textUnknown
	}
	return textNone
}

// isStringer reports whether t has a String method. A number that has one is neither its digits nor what it prints: the
// digits of an enum change when a constant is put before it, and what it prints is meant for people. The user decides.
func isStringer(t reflect.Type) bool {
	if t.PkgPath() == "" {
		return false
	}
	m, ok := reflect.PointerTo(t).MethodByName("String")
	return ok && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && m.Type.Out(0) == typeString
}

// isEnum knows a generated protobuf enum by its methods, so that this package need not import protobuf.
func isEnum(t reflect.Type) bool {
	if t.Kind() != reflect.Int32 || t.PkgPath() == "" {
		return false
	}
	text, ok := t.MethodByName("String")
	if !ok || text.Type.NumIn() != 1 || text.Type.NumOut() != 1 || text.Type.Out(0) != typeString {
		return false
	}
	_, number := t.MethodByName("Number")
	_, descriptor := t.MethodByName("Descriptor")
	_, old := t.MethodByName("EnumDescriptor")
	return number && descriptor || old
}

// valueText returns the text of v. what names it in faults.
func valueText(v reflect.Value, what string) (string, *faultError) {
	v, fault := deref(v, what)
	if fault != nil {
		return "", fault
	}
	var s string
	switch textKindOf(v.Type()) {
	case textString:
		s = v.String()
	case textInt:
		return strconv.FormatInt(v.Int(), 10), nil
	case textUint:
		return strconv.FormatUint(v.Uint(), 10), nil
	case textBool:
		return strconv.FormatBool(v.Bool()), nil
	case textTime:
		return timeText(v.Interface().(time.Time)), nil //nolint:forcetypeassert // the kind says so
	case textEnum, textMarshal:
		if s, fault = ownText(v, what); fault != nil {
			return "", fault
		}
	default:
		return otherText(v, what)
	}
	if keyenc.IsBlank(s) {
		return "", faultGone(what, "is blank")
	}
	return s, nil
}

// otherText is for values whose type was not known when the template was compiled.
func otherText(v reflect.Value, what string) (string, *faultError) {
	if v.CanFloat() {
		// JSON knows only one kind of number. A whole one that a float64 holds exactly is meant to be an integer.
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.FormatInt(int64(f), 10), nil
		}
		return "", faultBad(what, "is a fraction, or too large a float to be exact")
	}
	return "", faultBad(what, "is a "+v.Kind().String()+" and has no text of its own")
}

// ownText asks a value for its text by MarshalText, or a protobuf enum for its name. It is the user's code: what it
// panics with ends here, and becomes a call that has no key.
func ownText(v reflect.Value, what string) (s string, fault *faultError) {
	defer func() {
		if r := recover(); r != nil {
			s, fault = "", faultBad(what, "has a method that panics")
		}
	}()
	if !v.Type().Implements(typeMarshal) && !isEnum(v.Type()) {
		v = addr(v)
	}
	switch x := v.Interface().(type) {
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			return "", &faultError{what: what, reason: "can't be written: MarshalText failed", cause: err}
		}
		return string(b), nil
	case interface{ String() string }:
		return x.String(), nil
	}
	return "", faultBad(what, "has no text of its own")
}

// timeText writes a time so that one instant has one text, whatever its zone.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// derefType returns what t points at in the end.
func derefType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// deref returns what v points at in the end, looking into interfaces too.
func deref(v reflect.Value, what string) (reflect.Value, *faultError) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return v, faultGone(what, "is nil")
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return v, faultGone(what, "is nil")
	}
	return v, nil
}

// addr returns a pointer to v, or to a copy of it if v can't be pointed at.
func addr(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}
