//go:build unix

package transactions

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
	lockpb "github.com/latchkey-go/latchkey/proto/latchkey/v1"
)

// A stream that carries an annotation, in some package that the program links, kept every server of it from being built
// whose annotated methods run in transactions.
func TestAnAnnotatedStreamThatIsNotServedIsNoMistake(t *testing.T) {
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, &lockpb.Lock{Key: "account:#{req.service}"})
	method := func(name string, streams bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".grpc.health.v1.HealthCheckRequest"), OutputType: new(".grpc.health.v1.HealthCheckResponse"),
			ServerStreaming: new(streams), Options: options,
		}
	}
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("bank.proto"), Package: new("bank"), Syntax: new("proto3"), Dependency: []string{"grpc/health/v1/health.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{
			{Name: new("Tellers"), Method: []*descriptorpb.MethodDescriptorProto{method("Pay", false)}},
			{Name: new("Tickers"), Method: []*descriptorpb.MethodDescriptorProto{method("Watch", true)}},
		},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	m := latchkey.NewTxManager(newDatabase(t, "sqlite").open(t, 1))
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	rules, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(latchkey.Transactional(m)), grpcmw.Files(files))
	if err != nil {
		t.Fatal(err)
	}

	server := grpc.NewServer(rules.ServerOptions()...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bank.Tellers", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Pay"}},
	}, struct{}{})
	if err := rules.Check(server); err != nil {
		t.Errorf("a server without the stream: %v", err)
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bank.Tickers", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true}},
	}, struct{}{})
	const refusal = "a stream can't run in one transaction"
	if err := rules.Check(server); err == nil || !strings.Contains(err.Error(), "/bank.Tickers/Watch: "+refusal) {
		t.Errorf("a server with the stream: %v", err)
	}
	server.Stop()

	_, err = rules.Unary()(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "a"}, &grpc.UnaryServerInfo{FullMethod: "/bank.Tellers/Pay"},
		func(ctx context.Context, _ any) (any, error) {
			if _, ok := latchkey.TxFrom(ctx); !ok || !locks.Held(ctx, "account:a") {
				t.Error("no transaction, or no lock")
			}
			return nil, nil
		})
	if err != nil {
		t.Error(err)
	}
	err = rules.Stream()(nil, watcher{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/bank.Tickers/Watch"},
		func(any, grpc.ServerStream) error {
			t.Error("the stream ran")
			return nil
		})
	if reason, _ := details(err); status.Code(err) != codes.Internal || reason != "LOCK_MISCONFIGURED" {
		t.Errorf("%v (%s)", err, reason)
	}
}

type watcher struct {
	grpc.ServerStream
	ctx context.Context
}

func (w watcher) Context() context.Context { return w.ctx }
