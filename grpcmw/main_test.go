package grpcmw_test

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	reserve = testpb.Shop_Reserve_FullMethodName
	cancels = testpb.Shop_Cancel_FullMethodName
)

// shop is a gRPC server on a real listener and a client of it.
type shop struct {
	testpb.UnimplementedShopServer
	client    testpb.ShopClient
	annotated testpb.AnnotatedClient
	conn      *grpc.ClientConn
	server    *grpc.Server
	store     *memstore.Store
	locks     *latchkey.Locks // the server's
	others    *latchkey.Locks // another process's
	loses     bool            // leases run out here, and the store forgets those later

	unary func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error)
	chat  func(grpc.BidiStreamingServer[testpb.ReserveRequest, testpb.ReserveResponse]) error
	watch func(*testpb.ReserveRequest, grpc.ServerStreamingServer[testpb.ReserveResponse]) error
}

// open starts a shop with these rules; its methods answer with the keys that they hold.
func open(t *testing.T, rules ...grpcmw.Option) *shop {
	t.Helper()
	return openWith(t, nil, nil, rules...)
}

func openWith(t *testing.T, observer latchkey.ObserverFunc, dial []grpc.DialOption, rules ...grpcmw.Option) *shop {
	t.Helper()
	s := &shop{store: memstore.New(), unary: sayKeys}
	var opts []latchkey.LocksOption
	if observer != nil {
		opts = append(opts, latchkey.Observe(observer))
	}
	s.locks, s.others = latchkey.New(s.store, opts...), latchkey.New(s.store)
	s.server = grpc.NewServer(grpcmw.ServerOptions(s.locks, rules...)...)
	testpb.RegisterShopServer(s.server, s)
	testpb.RegisterAnnotatedServer(s.server, annotatedShop{s: s})
	s.conn = serve(t, s.server, dial...)
	s.client, s.annotated = testpb.NewShopClient(s.conn), testpb.NewAnnotatedClient(s.conn)
	t.Cleanup(func() {
		s.locks.Close()
		s.others.Close()
		if !s.loses { // a waiter that gave up is taken back in the background
			soon(t, "no lock is left", func() bool { return s.store.Len() == 0 })
		}
	})
	return s
}

// serve has a server listen, and returns a client's connection to it.
func serve(t *testing.T, server *grpc.Server, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

// hold takes a lock in the name of another process until the test ends.
func (s *shop) hold(t *testing.T, key string) (release func()) {
	t.Helper()
	lease, err := s.others.Acquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = lease.Release(context.Background()) }
	t.Cleanup(release)
	return release
}

func sayKeys(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	lease, ok := latchkey.LeaseFrom(ctx)
	if !ok {
		return &testpb.ReserveResponse{}, nil
	}
	return &testpb.ReserveResponse{Keys: lease.Keys()}, nil
}

func (s *shop) Reserve(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return s.unary(ctx, r)
}

func (s *shop) Cancel(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return s.unary(ctx, r)
}

func (s *shop) Peek(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return s.unary(ctx, r)
}

func (s *shop) Chat(stream grpc.BidiStreamingServer[testpb.ReserveRequest, testpb.ReserveResponse]) error {
	return s.chat(stream)
}

func (s *shop) Watch(r *testpb.ReserveRequest, stream grpc.ServerStreamingServer[testpb.ReserveResponse]) error {
	return s.watch(r, stream)
}

func (s *shop) Upload(stream grpc.ClientStreamingServer[testpb.ReserveRequest, testpb.ReserveResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	resp, _ := sayKeys(stream.Context(), nil)
	return stream.SendAndClose(resp)
}

type annotatedShop struct {
	testpb.UnimplementedAnnotatedServer
	s *shop
}

func (a annotatedShop) Reserve(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return a.s.unary(ctx, r)
}

func (a annotatedShop) Whole(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return a.s.unary(ctx, r)
}

func (a annotatedShop) Fixed(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return a.s.unary(ctx, r)
}

func (a annotatedShop) Plain(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return a.s.unary(ctx, r)
}

func (a annotatedShop) Chat(stream grpc.BidiStreamingServer[testpb.ReserveRequest, testpb.ReserveResponse]) error {
	return a.s.chat(stream)
}

// detail returns the detail of type T that an error's status has.
func detail[T proto.Message](err error) (found T, ok bool) {
	for _, d := range status.Convert(err).Details() {
		if found, ok = d.(T); ok {
			return found, true
		}
	}
	return found, false
}

// reason returns the reason in an error's ErrorInfo.
func reason(err error) string {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetReason()
}
