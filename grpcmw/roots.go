package grpcmw

import (
	"context"
	"errors"
	"reflect"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/latchkey-go/latchkey"
)

// call is one call while its key is made.
type call struct {
	ctx    context.Context
	method string
	req    any
}

// bind compiles a rule for a method.
func bind(d *latchkey.Decorator, method string, m protoreflect.MethodDescriptor) (*latchkey.Bound, error) {
	return d.Bind(method, latchkey.Self(reflect.TypeFor[*call](), &roots{m.Input()}))
}

// roots describes a call to the template.
type roots struct {
	input protoreflect.MessageDescriptor
}

func (*roots) String() string  { return "a gRPC call" }
func (*roots) Names() []string { return []string{"req", "md", "method"} }

// Member implements [latchkey.Members].
func (r *roots) Member(name string) (latchkey.Member, error) {
	switch name {
	case "req":
		return latchkey.Member{Type: reflect.TypeFor[message](), Of: fields{r.input}, Get: get((*call).message)}, nil
	case "md":
		return latchkey.Member{Type: reflect.TypeFor[*call](), Of: md{}, Get: func(v any) (any, error) { return v, nil }}, nil
	case "method":
		return latchkey.Member{
			Type: reflect.TypeFor[string](), Get: get(func(c *call) (any, error) { return c.method, nil }),
		}, nil
	}
	return latchkey.Member{}, errors.New("a call has no " + name)
}

func get(f func(*call) (any, error)) func(any) (any, error) {
	return func(v any) (any, error) { return f(v.(*call)) } //nolint:forcetypeassert // what bind says
}

var errNoMessage = errors.New("is no protobuf message")

// message returns the request; nil if it is nil, typed or not.
func (c *call) message() (any, error) {
	var m protoreflect.Message
	switch req := c.req.(type) {
	case nil:
		return nil, nil
	case proto.Message:
		m = req.ProtoReflect()
	case protoadapt.MessageV1:
		m = protoadapt.MessageV2Of(req).ProtoReflect()
	default:
		return nil, errNoMessage
	}
	if !m.IsValid() {
		return nil, nil
	}
	return message{m}, nil
}

// md describes the metadata: any name, since it shows only in the call whether there is one.
type md struct{}

func (md) String() string  { return "a call's metadata" }
func (md) Names() []string { return nil }

// Member implements [latchkey.Members].
func (md) Member(name string) (latchkey.Member, error) {
	return latchkey.Member{Type: reflect.TypeFor[string](), Get: get(func(c *call) (any, error) {
		values := metadata.ValueFromIncomingContext(c.ctx, name)
		if len(values) == 0 {
			return nil, nil
		}
		for _, v := range values[1:] {
			if v != values[0] {
				return nil, errors.New("is given several times, with different values")
			}
		}
		return values[0], nil
	})}, nil
}
