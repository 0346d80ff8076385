package grpcmw_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// ListValue ends in Value and has one field, but is no wrapper: a rule for it compiled and failed in every call.
func TestAListValueIsNoWrapper(t *testing.T) {
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("lists.proto"), Package: new("lists"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/struct.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Lists"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: new("Put"), InputType: new(".google.protobuf.Struct"), OutputType: new(".google.protobuf.Struct"),
			}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	request, err := structpb.NewStruct(map[string]any{"tags": []any{"b", "a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	const list = `req.fields["tags"].list_value`
	for template, want := range map[string]struct{ err, keys string }{
		"t:#{" + list + ".string_value}":               {err: "google.protobuf.ListValue has no field string_value"},
		"t:#{" + list + "}":                            {err: "google.protobuf.ListValue has no text of its own"},
		"t:#{map(" + list + ".values, .string_value)}": {keys: "t:a t:b"},
		"t:#{" + list + ".values[0].string_value}":     {keys: "t:b"},
	} {
		rules, err := grpcmw.Rules(locks, grpcmw.Files(files), grpcmw.Method("/lists.Lists/Put", template))
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v; want %q", template, err, want.err)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		info := &grpc.UnaryServerInfo{FullMethod: "/lists.Lists/Put"}
		_, err = rules.Unary()(t.Context(), proto.Message(request), info, func(ctx context.Context, _ any) (any, error) {
			if keys := strings.Join(latchkey.HeldKeys(ctx), " "); keys != want.keys {
				t.Errorf("%s: %q, want %q", template, keys, want.keys)
			}
			return nil, nil
		})
		if err != nil {
			t.Errorf("%s: %v", template, err)
		}
	}
}
