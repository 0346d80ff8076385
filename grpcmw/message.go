package grpcmw

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/latchkey-go/latchkey"
)

// message is a message as the value of a path.
type message struct{ m protoreflect.Message }

// fields describes the fields of a message to a template, by the message's descriptor.
type fields struct {
	message protoreflect.MessageDescriptor
}

func (f fields) String() string { return string(f.message.FullName()) }

// Names implements [latchkey.Members].
func (f fields) Names() []string {
	names := make([]string, f.message.Fields().Len())
	for i := range names {
		names[i] = string(f.message.Fields().Get(i).Name())
	}
	return names
}

// Member implements [latchkey.Members]. A field is found by its name in the .proto file, in JSON or in Go, then by the
// same letters in other case.
func (f fields) Member(name string) (latchkey.Member, error) {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		var found []protoreflect.FieldDescriptor
		for i := range f.message.Fields().Len() {
			field := f.message.Fields().Get(i)
			if same(string(field.Name()), name) || same(field.JSONName(), name) || same(goName(string(field.Name())), name) {
				found = append(found, field)
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return memberOf(found[0]), nil
		}
		return latchkey.Member{}, fmt.Errorf("%q can mean %s or %s of %s; write the one that is meant as the .proto file does",
			name, found[0].Name(), found[1].Name(), f.message.FullName())
	}
	if one := f.message.Oneofs().ByName(protoreflect.Name(name)); one != nil {
		return latchkey.Member{}, fmt.Errorf("%s is a oneof; name one of its fields, such as %s", name, one.Fields().Get(0).Name())
	}
	return latchkey.Member{}, fmt.Errorf("%s has no field %s", f.message.FullName(), name)
}

// goName is what protoc-gen-go calls a field.
func goName(name string) string {
	var b strings.Builder
	up := true
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' && i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z':
			up = true
		case up && 'a' <= c && c <= 'z':
			b.WriteByte(c - 'a' + 'A')
			up = false
		case up && c == '_':
			b.WriteByte('X')
			up = false
		default:
			b.WriteByte(c)
			up = '0' <= c && c <= '9'
		}
	}
	return b.String()
}

var errOtherType = errors.New("is not there: the message is of another type than its descriptor says")

// memberOf describes a field.
func memberOf(field protoreflect.FieldDescriptor) latchkey.Member {
	t := typeOf(field)
	m := latchkey.Member{Type: t.goType, Get: func(v any) (any, error) {
		msg := v.(*message).m //nolint:forcetypeassert // the type that is described
		field := field
		if have, want := msg.Descriptor(), field.ContainingMessage(); have != want {
			// Another copy of the descriptor: a service may be known by two.
			field = have.Fields().ByNumber(field.Number())
			if have.FullName() != want.FullName() || field == nil || typeOf(field).goType != t.goType {
				return nil, errOtherType
			}
		}
		if field.HasPresence() && !msg.Has(field) {
			return nil, nil
		}
		return t.value(msg.Get(field)), nil
	}}
	if t.message != nil {
		m.Of = fields{t.message}
	}
	return m
}

// fieldType is how the values of a field appear in a template.
type fieldType struct {
	goType  reflect.Type
	message protoreflect.MessageDescriptor // of the values or, in lists and maps, of the elements
	value   func(protoreflect.Value) any
}

func typeOf(field protoreflect.FieldDescriptor) fieldType {
	switch {
	case field.IsMap():
		return mapOf(field.MapKey(), field.MapValue())
	case field.IsList():
		return listOf(singleType(field))
	}
	return singleType(field)
}

func listOf(elem fieldType) fieldType {
	t := reflect.SliceOf(elem.goType)
	return fieldType{goType: t, message: elem.message, value: func(v protoreflect.Value) any {
		list := v.List()
		out := reflect.MakeSlice(t, list.Len(), list.Len())
		for i := range list.Len() {
			out.Index(i).Set(reflect.ValueOf(elem.value(list.Get(i))))
		}
		return out.Interface()
	}}
}

func mapOf(keyField, valueField protoreflect.FieldDescriptor) fieldType {
	key, value := singleType(keyField), singleType(valueField)
	t := reflect.MapOf(key.goType, value.goType)
	return fieldType{goType: t, message: value.message, value: func(v protoreflect.Value) any {
		out := reflect.MakeMapWithSize(t, v.Map().Len())
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out.SetMapIndex(reflect.ValueOf(key.value(k.Value())), reflect.ValueOf(value.value(v)))
			return true
		})
		return out.Interface()
	}}
}
