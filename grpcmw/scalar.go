package grpcmw

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// singleType is how one value of a field appears in a template: integers as int64, or uint64 where they need it, enums
// by their names.
func singleType(field protoreflect.FieldDescriptor) fieldType {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return scalar(func(v protoreflect.Value) any { return v.Bool() }, false)
	case protoreflect.StringKind:
		return scalar(func(v protoreflect.Value) any { return v.String() }, "")
	case protoreflect.BytesKind:
		return scalar(func(v protoreflect.Value) any { return v.Bytes() }, []byte(nil))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return scalar(func(v protoreflect.Value) any { return v.Float() }, 0.0)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return scalar(func(v protoreflect.Value) any { return v.Uint() }, uint64(0))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return scalar(func(v protoreflect.Value) any { return int64(uint32(v.Uint())) }, int64(0)) //nolint:gosec // 32 bits
	case protoreflect.EnumKind:
		names := field.Enum().Values()
		return scalar(func(v protoreflect.Value) any {
			if value := names.ByNumber(v.Enum()); value != nil {
				return string(value.Name())
			}
			return strconv.Itoa(int(v.Enum()))
		}, "")
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageType(field.Message())
	default: // the other integers
		return scalar(func(v protoreflect.Value) any { return v.Int() }, int64(0))
	}
}

func scalar(value func(protoreflect.Value) any, zero any) fieldType {
	return fieldType{goType: reflect.TypeOf(zero), value: value}
}

// wrappers are the messages of wrappers.proto; others whose names end in Value are none.
var wrappers = map[string]bool{
	"BoolValue": true, "BytesValue": true, "DoubleValue": true, "FloatValue": true, "Int32Value": true, "Int64Value": true,
	"StringValue": true, "UInt32Value": true, "UInt64Value": true,
}

// messageType is how a message appears: the well-known ones as the value that they stand for.
func messageType(d protoreflect.MessageDescriptor) fieldType {
	name, wellKnown := strings.CutPrefix(string(d.FullName()), "google.protobuf.")
	number := func(v protoreflect.Value, field string) int64 {
		return v.Message().Get(v.Message().Descriptor().Fields().ByName(protoreflect.Name(field))).Int()
	}
	switch {
	case wellKnown && name == "Timestamp":
		return scalar(func(v protoreflect.Value) any {
			return time.Unix(number(v, "seconds"), number(v, "nanos")).UTC()
		}, time.Time{})
	case wellKnown && name == "Duration":
		return scalar(func(v protoreflect.Value) any {
			return time.Duration(number(v, "seconds"))*time.Second + time.Duration(number(v, "nanos"))
		}, time.Duration(0))
	case wellKnown && wrappers[name]:
		inner := singleType(d.Fields().Get(0))
		return fieldType{goType: inner.goType, message: inner.message, value: func(v protoreflect.Value) any {
			return inner.value(v.Message().Get(v.Message().Descriptor().Fields().Get(0)))
		}}
	}
	return fieldType{goType: reflect.TypeFor[message](), message: d, value: func(v protoreflect.Value) any {
		return message{v.Message()}
	}}
}
