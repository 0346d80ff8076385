package grpcmw_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
	lockpb "github.com/latchkey-go/latchkey/proto/latchkey/v1"
)

func TestAnnotationsInTheProtoFile(t *testing.T) {
	s := open(t, grpcmw.FromAnnotations())
	for name, c := range map[string]struct {
		call    func(context.Context, *testpb.ReserveRequest, ...grpc.CallOption) (*testpb.ReserveResponse, error)
		request *testpb.ReserveRequest
		want    string
	}{
		"key":        {s.annotated.Reserve, &testpb.ReserveRequest{OrderId: "1"}, "order:1"},
		"no key":     {s.annotated.Whole, &testpb.ReserveRequest{}, "%2Flatchkey.test.v1.Annotated%2FWhole"},
		"everything": {s.annotated.Fixed, &testpb.ReserveRequest{OrderId: "1", Number: 1}, "p:fixed:1"},
		"when":       {s.annotated.Fixed, &testpb.ReserveRequest{OrderId: "1"}, ""},
		"none":       {s.annotated.Plain, &testpb.ReserveRequest{OrderId: "1"}, ""},
		"other":      {s.client.Reserve, &testpb.ReserveRequest{OrderId: "1"}, ""},
	} {
		resp, err := c.call(t.Context(), c.request)
		if got := strings.Join(resp.GetKeys(), " "); err != nil || strings.ReplaceAll(got, "%2F", "/") != strings.ReplaceAll(c.want, "%2F", "/") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// catalogue is a service that is known by its descriptor only. annotate makes the options of its one method.
func catalogue(t *testing.T, pkg string, options *descriptorpb.MethodOptions) protoreflect.FileDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: new(pkg + ".proto"), Package: new(pkg), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("Query"),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name: new("sku"), JsonName: new("sku"), Number: new(int32(1)),
				Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}},
		}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Catalogue"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: new("Get"), InputType: new("." + pkg + ".Query"), OutputType: new("." + pkg + ".Query"),
				Options: options,
			}},
		}},
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// annotation makes options in the given form.
func annotation(form, key string) *descriptorpb.MethodOptions {
	options := &descriptorpb.MethodOptions{}
	switch form {
	case "generated":
		proto.SetExtension(options, lockpb.E_Lock, &lockpb.Lock{Key: key})
	case "unknown field": // parsed by a program that does not know the extension
		lock, _ := proto.Marshal(&lockpb.Lock{Key: key})
		raw := protowire.AppendTag(nil, lockpb.E_Lock.TypeDescriptor().Number(), protowire.BytesType)
		options.ProtoReflect().SetUnknown(protowire.AppendBytes(raw, lock))
	case "dynamic": // the extension's own type was parsed from a file
		ext := dynamicpb.NewExtensionType(lockpb.E_Lock.TypeDescriptor())
		lock := dynamicpb.NewMessage((&lockpb.Lock{}).ProtoReflect().Descriptor())
		lock.Set(lock.Descriptor().Fields().ByName("key"), protoreflect.ValueOfString(key))
		options.ProtoReflect().Set(ext.TypeDescriptor(), protoreflect.ValueOfMessage(lock))
	}
	return options
}

// serveCatalogue serves the one method of a dynamic service.
func serveCatalogue(t *testing.T, fd protoreflect.FileDescriptor, rules *grpcmw.RuleSet) func(sku string) (string, error) {
	t.Helper()
	service := fd.Services().Get(0)
	query := fd.Messages().Get(0)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(rules.Unary()))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: string(service.FullName()), HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := dynamicpb.NewMessage(query)
			if err := dec(in); err != nil {
				return nil, err
			}
			info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + string(service.FullName()) + "/Get"}
			return interceptor(ctx, in, info, func(ctx context.Context, _ any) (any, error) {
				out := dynamicpb.NewMessage(query)
				if lease, ok := latchkey.LeaseFrom(ctx); ok {
					out.Set(query.Fields().ByNumber(1), protoreflect.ValueOfString(lease.Key()))
				}
				return out, nil
			})
		}}},
	}, struct{}{})
	conn := serve(t, server)
	return func(sku string) (string, error) {
		in, out := dynamicpb.NewMessage(query), dynamicpb.NewMessage(query)
		in.Set(query.Fields().ByNumber(1), protoreflect.ValueOfString(sku))
		err := conn.Invoke(t.Context(), "/"+string(service.FullName())+"/Get", in, out)
		return out.Get(query.Fields().ByNumber(1)).String(), err
	}
}

func TestAnnotationsOfServicesThatAreKnownByDescriptorOnly(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for i, form := range []string{"generated", "unknown field", "dynamic"} {
		pkg := "dyn" + string(rune('a'+i))
		fd := catalogue(t, pkg, annotation(form, "sku:#{req.sku}"))
		files := new(protoregistry.Files)
		if err := files.RegisterFile(fd); err != nil {
			t.Fatal(err)
		}
		rules, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(), grpcmw.Files(files))
		if err != nil {
			t.Fatal(err)
		}
		get := serveCatalogue(t, catalogue(t, pkg, nil), rules) // the server has its own copy of the descriptor
		if key, err := get("rum"); err != nil || key != "sku:rum" {
			t.Errorf("%s: %q, %v", form, key, err)
		}
		if _, err := get(""); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", form, err)
		}
	}
}

func TestAnnotationsOfServicesThatAreRegisteredLate(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	files := new(protoregistry.Files) // the global one would keep the bad service for the tests that follow
	rules, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(), grpcmw.Files(files))
	if err != nil {
		t.Fatal(err)
	}
	good := catalogue(t, "lategood", annotation("generated", "sku:#{req.sku}"))
	bad := catalogue(t, "latebad", annotation("generated", "sku:#{req.nope}"))
	getGood, getBad := serveCatalogue(t, good, rules), serveCatalogue(t, bad, rules)
	if key, err := getGood("rum"); err != nil || key != "" {
		t.Errorf("before it is registered: %q, %v", key, err)
	}
	for _, fd := range []protoreflect.FileDescriptor{good, bad} {
		if err := files.RegisterFile(fd); err != nil {
			t.Fatal(err)
		}
	}
	if key, err := getGood("rum"); err != nil || key != "sku:rum" {
		t.Errorf("%q, %v", key, err)
	}
	if _, err := getBad("rum"); status.Code(err) != codes.Internal || reason(err) != "LOCK_MISCONFIGURED" {
		t.Errorf("an annotation that does not fit: %v", err)
	}
}

func TestAnnotationsThatAreWrongFailWhenTheServerIsBuilt(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for i, c := range []struct {
		lock *lockpb.Lock
		want string
	}{
		{&lockpb.Lock{Key: "sku:#{req.skuu}"}, "did you mean sku?"},
		{&lockpb.Lock{Key: "sku", Wait: "3"}, `wait: "3" is no duration`},
		{&lockpb.Lock{Key: "sku", Wait: "-3s"}, "Wait(-3s)"},
		{&lockpb.Lock{Key: "sku", Lease: "soon"}, `lease: "soon" is no duration`},
		{&lockpb.Lock{Key: "sku", Lease: "1s", RenewedLease: "1s"}, "lease and renewed_lease"},
		{&lockpb.Lock{Key: "sku", MaxHold: "0s"}, "MaxHold(0s)"},
		{&lockpb.Lock{Key: "sku", When: "req.skuu == 1"}, "did you mean sku?"},
		{&lockpb.Lock{Key: "sku", Prefix: "a b"}, `Prefix("a b")`},
		{&lockpb.Lock{Key: "sku", Fair: true}, "fair and shared"},
	} {
		options := &descriptorpb.MethodOptions{}
		proto.SetExtension(options, lockpb.E_Lock, c.lock)
		files := new(protoregistry.Files)
		pkg := "wrong" + string(rune('a'+i))
		if err := files.RegisterFile(catalogue(t, pkg, options)); err != nil {
			t.Fatal(err)
		}
		_, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(), grpcmw.Files(files))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/"+pkg+".Catalogue/Get") {
			t.Errorf("%v\nwant %q", err, c.want)
		}
	}
	good := &lockpb.Lock{Key: "sku", Wait: "forever", RenewedLease: "1s", MaxHold: "1m", MaxKeys: 3, MintToken: true}
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, good)
	files := new(protoregistry.Files)
	_ = files.RegisterFile(catalogue(t, "good", options))
	if _, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(latchkey.Wait(0)), grpcmw.Files(files)); err != nil {
		t.Error(err)
	}
}
