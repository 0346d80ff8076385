package grpcmw_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

// A service whose methods panic, behind interceptors that recover, as every service has them: they find the panic as it
// was thrown and the lock gone.
func TestPanicsOfUnaryMethodsAndStreamsOverTheWire(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	recovered := func(r any) error {
		if n := store.Len(); r != "boom" || n != 0 {
			t.Errorf("%v arrived, %d locks are left", r, n)
		}
		return status.Error(codes.Internal, "recovered")
	}
	rules := grpcmw.Service("latchkey.test.v1.Shop", "order:#{req.order_id}")
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer func() { err = recovered(recover()) }()
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer func() { err = recovered(recover()) }()
			return handler(srv, ss)
		}),
	}, grpcmw.ServerOptions(locks, rules)...)...)
	held := 0
	throw := func(ctx context.Context) {
		if locks.Held(ctx, "order:zebra") {
			held++
		}
		panic("boom")
	}
	testpb.RegisterShopServer(server, &shop{
		unary: func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
			throw(ctx)
			return nil, nil
		},
		chat: func(stream chatStream) error {
			_, err := stream.Recv()
			throw(stream.Context())
			return err
		},
	})
	client := testpb.NewShopClient(serve(t, server))
	for range 2 { // the second one finds the lock free
		if _, err := client.Reserve(t.Context(), zebra); status.Convert(err).Message() != "recovered" {
			t.Errorf("unary: %v", err)
		}
		stream, err := client.Chat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(zebra)
		if _, err := stream.Recv(); status.Convert(err).Message() != "recovered" {
			t.Errorf("stream: %v", err)
		}
	}
	if held != 4 {
		t.Errorf("held in %d of 4 calls", held)
	}
}

func TestACallerThatGoesAwayWhileItsStreamRunsEndsItsContext(t *testing.T) {
	running, done := make(chan struct{}), make(chan error, 1)
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	s.chat = func(stream chatStream) error {
		ctx := stream.Context()
		if _, err := stream.Recv(); err != nil || !s.locks.Held(ctx, "order:zebra") {
			t.Errorf("%v, or not held", err)
		}
		close(running)
		<-ctx.Done()
		done <- context.Cause(ctx)
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.client.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(zebra)
	<-running
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v", err)
	}
	soon(t, "the lock is released", func() bool { return s.store.Len() == 0 })
}
