package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
	lockpb "github.com/latchkey-go/latchkey/proto/latchkey/v1"
)

type (
	ask    = grpc_health_v1.HealthCheckRequest
	answer = grpc_health_v1.HealthCheckResponse
)

// annotated is a service whose methods of every kind carry the same annotation, as a .proto file states it.
func annotated(t *testing.T) *protoregistry.Files {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, &lockpb.Lock{Key: "order:#{req.service}"})
	method := func(name string, fromClient, fromServer bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".grpc.health.v1.HealthCheckRequest"), OutputType: new(".grpc.health.v1.HealthCheckResponse"),
			ClientStreaming: new(fromClient), ServerStreaming: new(fromServer), Options: options,
		}
	}
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("desk.proto"), Package: new("desk"), Syntax: new("proto3"), Dependency: []string{"grpc/health/v1/health.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Desk"),
			Method: []*descriptorpb.MethodDescriptorProto{
				method("Call", false, false), method("Watch", false, true), method("Upload", true, false), method("Chat", true, true),
			},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAnnotatedMethodsOfEveryKindAreLocked(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	held := func(ctx context.Context) (*answer, error) {
		if !locks.Held(ctx, "order:1") {
			return nil, connect.NewError(connect.CodeDataLoss, errNotHeld)
		}
		return &answer{}, nil
	}
	rules, err := grpcmw.Rules(locks, grpcmw.FromAnnotations(), grpcmw.Files(annotated(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]connect.HandlerOption{
		"locked": {connect.WithInterceptors(Locked(rules))}, "control": nil,
	} {
		srv := httptest.NewUnstartedServer(desk(held, opts...))
		srv.EnableHTTP2 = true // a bidirectional stream needs it
		srv.StartTLS()
		for method, call := range map[string]func(order string) error{
			"Call":   func(order string) error { return callOnce(t, srv, order) },
			"Watch":  func(order string) error { return watch(t, srv, order) },
			"Upload": func(order string) error { return upload(t, srv, order) },
			"Chat":   func(order string) error { return chat(t, srv, order) },
		} {
			want := map[string]connect.Code{"1": 0, "": connect.CodeInvalidArgument, "busy": connect.CodeAborted}
			if name == "control" {
				want = map[string]connect.Code{"1": connect.CodeDataLoss}
			}
			busy, err := locks.Acquire(t.Context(), "order:busy")
			if err != nil {
				t.Fatal(err)
			}
			for order, code := range want {
				if err := call(order); err == nil && code != 0 || err != nil && connect.CodeOf(err) != code {
					t.Errorf("%s: %s of order %q: %v, want %v", name, method, order, err, code)
				} else if order == "busy" && reason(err) != "LOCK_BUSY" {
					t.Errorf("%s: %s: %v has the reason %q", name, method, err, reason(err))
				}
			}
			_ = busy.Release(t.Context())
		}
		srv.Close()
	}
	if store.Len() != 0 {
		t.Errorf("%d locks are left", store.Len())
	}
}

var errNotHeld = statusError("not held")

// desk serves a method of each kind, whose answer is the given function's once it has received.
func desk(held func(context.Context) (*answer, error), opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/desk.Desk/Call", connect.NewUnaryHandler("/desk.Desk/Call",
		func(ctx context.Context, _ *connect.Request[ask]) (*connect.Response[answer], error) {
			a, err := held(ctx)
			return connect.NewResponse(a), err
		}, opts...))
	mux.Handle("/desk.Desk/Watch", connect.NewServerStreamHandler("/desk.Desk/Watch",
		func(ctx context.Context, _ *connect.Request[ask], s *connect.ServerStream[answer]) error {
			a, err := held(ctx)
			if err != nil {
				return err
			}
			return s.Send(a)
		}, opts...))
	mux.Handle("/desk.Desk/Upload", connect.NewClientStreamHandler("/desk.Desk/Upload",
		func(ctx context.Context, s *connect.ClientStream[ask]) (*connect.Response[answer], error) {
			for s.Receive() {
			}
			if s.Err() != nil {
				return nil, s.Err()
			}
			a, err := held(ctx)
			return connect.NewResponse(a), err
		}, opts...))
	mux.Handle("/desk.Desk/Chat", connect.NewBidiStreamHandler("/desk.Desk/Chat",
		func(ctx context.Context, s *connect.BidiStream[ask, answer]) error {
			if _, err := s.Receive(); err != nil {
				return err
			}
			a, err := held(ctx)
			if err != nil {
				return err
			}
			return s.Send(a)
		}, opts...))
	return mux
}

func client(srv *httptest.Server, method string) *connect.Client[ask, answer] {
	return connect.NewClient[ask, answer](srv.Client(), srv.URL+"/desk.Desk/"+method)
}

func callOnce(t *testing.T, srv *httptest.Server, order string) error {
	_, err := client(srv, "Call").CallUnary(t.Context(), connect.NewRequest(&ask{Service: order}))
	return err
}

func watch(t *testing.T, srv *httptest.Server, order string) error {
	s, err := client(srv, "Watch").CallServerStream(t.Context(), connect.NewRequest(&ask{Service: order}))
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Receive() {
	}
	return s.Err()
}

func upload(t *testing.T, srv *httptest.Server, order string) error {
	s := client(srv, "Upload").CallClientStream(t.Context())
	_ = s.Send(&ask{Service: order})
	_, err := s.CloseAndReceive()
	return err
}

func chat(t *testing.T, srv *httptest.Server, order string) error {
	s := client(srv, "Chat").CallBidiStream(t.Context())
	_ = s.Send(&ask{Service: order})
	_ = s.CloseRequest()
	defer s.CloseResponse()
	_, err := s.Receive()
	return err
}
