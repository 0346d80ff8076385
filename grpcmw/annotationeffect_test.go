package grpcmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/memstore"
	lockpb "github.com/latchkey-go/latchkey/proto/latchkey/v1"
)

// annotated returns the interceptor of a service whose one method has the annotation, and the method's name.
func annotated(t *testing.T, locks *latchkey.Locks, lock *lockpb.Lock) (grpc.UnaryServerInterceptor, *grpc.UnaryServerInfo) {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, lock)
	request := (&testpb.ReserveRequest{}).ProtoReflect().Descriptor()
	name := "." + string(request.FullName())
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("effect.proto"), Package: new("effect"), Syntax: new("proto3"),
		Dependency: []string{request.ParentFile().Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Effect"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: new("Get"), InputType: new(name), OutputType: new(name), Options: options,
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
	rules, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(), grpcmw.Files(files))
	if err != nil {
		t.Fatal(err)
	}
	return rules.Unary(), &grpc.UnaryServerInfo{FullMethod: "/effect.Effect/Get"}
}

// Each field of an annotation has the effect of the option that it is named for, which its absence has not.
func TestEachFieldOfAnAnnotationHasItsEffect(t *testing.T) {
	const work = 5 * time.Second // longer than the leases below
	lost := func(err error) bool { return errors.Is(err, latchkey.ErrLeaseLost) }
	kept := func(err error) bool { return err == nil }
	for name, c := range map[string]struct {
		lock *lockpb.Lock
		busy bool // somebody holds the lock for a second
		code codes.Code
		end  func(cause error) bool // of the context, when the work is done
		op   func(op latchkey.Op) bool
	}{
		"none":          {lock: &lockpb.Lock{}, end: kept, op: func(op latchkey.Op) bool { return op.Lease == 30*time.Second && op.Tokens == 0 }},
		"renewed_lease": {lock: &lockpb.Lock{RenewedLease: "3s"}, end: kept, op: func(op latchkey.Op) bool { return op.Lease == 3*time.Second }},
		"lease":         {lock: &lockpb.Lock{Lease: "3s"}, end: lost, op: func(op latchkey.Op) bool { return op.Lease == 3*time.Second }},
		"max_hold":      {lock: &lockpb.Lock{MaxHold: "4s"}, end: lost},
		"mint_token":    {lock: &lockpb.Lock{MintToken: true}, end: kept, op: func(op latchkey.Op) bool { return op.Tokens > 0 }},
		"max_keys":      {lock: &lockpb.Lock{MaxKeys: 1}, code: codes.InvalidArgument},
		"no wait":       {lock: &lockpb.Lock{}, busy: true, code: codes.Aborted},
		"short wait":    {lock: &lockpb.Lock{Wait: "500ms"}, busy: true, code: codes.Aborted},
		"wait":          {lock: &lockpb.Lock{Wait: "2s"}, busy: true, end: kept},
		"wait forever":  {lock: &lockpb.Lock{Wait: "forever"}, busy: true, end: kept},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := locktest.NewRecorder(memstore.New())
				locks := latchkey.New(store)
				defer locks.Close()
				if c.busy {
					held, err := locks.Acquire(t.Context(), "sku:a")
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
				}
				store.Forget()
				c.lock.Key = "sku:#{map(req.items, .sku)}"
				call, info := annotated(t, locks, c.lock)
				request := &testpb.ReserveRequest{Items: []*testpb.Item{{Sku: "a"}, {Sku: "b"}}}
				if c.op != nil { // about one lock
					request.Items = request.GetItems()[:1]
				}
				ran, cause := false, error(nil)
				_, err := call(t.Context(), request, info, func(ctx context.Context, _ any) (any, error) {
					ran = true
					time.Sleep(work)
					cause = context.Cause(ctx)
					return request, nil
				})
				if c.code != codes.OK {
					if status.Code(err) != c.code || ran {
						t.Errorf("ran = %t, %v; want %v", ran, err, c.code)
					}
					time.Sleep(time.Minute)
					return
				}
				if !ran || !c.end(cause) {
					t.Errorf("ran = %t; the context ended because of %v; the call: %v", ran, cause, err)
				}
				if ops := store.Ops(); c.op != nil && !c.op(ops[0]) {
					t.Errorf("the store was asked %+v", ops[0])
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
