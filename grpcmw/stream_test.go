package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
)

type (
	chatStream = grpc.BidiStreamingServer[testpb.ReserveRequest, testpb.ReserveResponse]
	chatClient = grpc.BidiStreamingClient[testpb.ReserveRequest, testpb.ReserveResponse]
)

const chatMethod = testpb.Shop_Chat_FullMethodName

func startChat(t *testing.T, s *shop) chatClient {
	t.Helper()
	c, err := s.client.Chat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAStreamLocksOnItsFirstMessageAndUntilTheHandlerIsOver(t *testing.T) {
	over := make(chan struct{})
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	s.chat = func(stream chatStream) error {
		defer close(over)
		ctx := stream.Context() // as it is before the lock
		if _, ok := latchkey.LeaseFrom(ctx); ok || s.store.Len() != 0 {
			t.Error("locked before the first message")
		}
		if err := stream.Send(&testpb.ReserveResponse{Keys: []string{"hello"}}); err != nil {
			t.Error(err)
		}
		for {
			_, err := stream.Recv()
			if err != nil {
				break
			}
			lease, ok := latchkey.LeaseFrom(ctx)
			if !ok || stream.Context() != ctx {
				t.Error("not locked after the first message")
				break
			}
			_ = stream.Send(&testpb.ReserveResponse{Keys: lease.Keys()})
		}
		if !s.locks.Held(ctx, "order:1") || ctx.Err() != nil {
			t.Error("not held to the end")
		}
		return nil
	}
	c := startChat(t, s)
	if r, err := c.Recv(); err != nil || r.GetKeys()[0] != "hello" {
		t.Fatal(r, err)
	}
	for _, order := range []string{"1", "2"} { // the second message does not change the lock
		_ = c.Send(&testpb.ReserveRequest{OrderId: order})
		if r, err := c.Recv(); err != nil || strings.Join(r.GetKeys(), " ") != "order:1" {
			t.Errorf("%v, %v", r, err)
		}
	}
	_ = c.CloseSend()
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	<-over
	soon(t, "released", func() bool { return s.store.Len() == 0 })
}

func TestTheOtherKindsOfStream(t *testing.T) {
	s := open(t, grpcmw.Service("latchkey.test.v1.Shop", "order:#{req.order_id}"))
	s.watch = func(_ *testpb.ReserveRequest, stream grpc.ServerStreamingServer[testpb.ReserveResponse]) error {
		r, _ := sayKeys(stream.Context(), nil)
		return stream.Send(r)
	}
	w, err := s.client.Watch(t.Context(), &testpb.ReserveRequest{OrderId: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || strings.Join(r.GetKeys(), " ") != "order:1" {
		t.Errorf("server stream: %v, %v", r, err)
	}
	_, _ = w.Recv()

	u, err := s.client.Upload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = u.Send(&testpb.ReserveRequest{OrderId: "2"})
	_ = u.Send(&testpb.ReserveRequest{OrderId: "3"})
	if r, err := u.CloseAndRecv(); err != nil || strings.Join(r.GetKeys(), " ") != "order:2" {
		t.Errorf("client stream: %v, %v", r, err)
	}

	u, _ = s.client.Upload(t.Context())
	if r, err := u.CloseAndRecv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("client stream without a message: %v, %v", r, err)
	}
}

func TestAStreamWithoutItsLockFailsWhateverTheHandlerDoes(t *testing.T) {
	failures := make(chan []error, 1)
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	s.hold(t, "order:zebra")
	s.chat = func(stream chatStream) error {
		var errs []error
		for range 2 {
			_, err := stream.Recv()
			errs = append(errs, err, stream.Send(&testpb.ReserveResponse{Keys: []string{"leak"}}), stream.Context().Err())
		}
		failures <- errs
		return nil // swallows them
	}
	c := startChat(t, s)
	_ = c.Send(zebra)
	r, err := c.Recv()
	if status.Code(err) != codes.Aborted || reason(err) != "LOCK_BUSY" {
		t.Errorf("%v, %v", r, err)
	}
	checkSecrets(t, err)
	for i, err := range <-failures {
		if err == nil {
			t.Errorf("operation %d on a stream without its lock succeeded", i)
		}
	}
}

func TestAStreamThatLosesItsLease(t *testing.T) {
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}", latchkey.LeaseFor(20*time.Millisecond)))
	s.loses = true
	s.chat = func(stream chatStream) error {
		ctx := stream.Context()
		if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, latchkey.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		return nil
	}
	c := startChat(t, s)
	_ = c.Send(zebra)
	if _, err := c.Recv(); status.Code(err) != codes.Unknown || reason(err) != "LEASE_LOST" {
		t.Errorf("%v", err)
	}
}

func TestAStreamsErrorsAndPanicsReleaseTheLock(t *testing.T) {
	own := status.Error(codes.NotFound, "own")
	after := make(chan any, 1)
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	s.chat = func(stream chatStream) error {
		if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
		return own
	}
	c := startChat(t, s)
	_ = c.Send(zebra)
	if _, err := c.Recv(); status.Code(err) != codes.NotFound || err.Error() != own.Error() {
		t.Errorf("%v", err)
	}
	soon(t, "released", func() bool { return s.store.Len() == 0 })

	// A panic would end the server, so it is caught in between, where the lock has to be gone already.
	stream := grpcmw.StreamServerInterceptor(s.locks, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	func() {
		defer func() { after <- recover() }()
		_ = stream(nil, oneMessage{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: chatMethod},
			func(_ any, ss grpc.ServerStream) error {
				if err := ss.RecvMsg(&testpb.ReserveRequest{}); err != nil || s.store.Len() != 1 {
					t.Errorf("%v, %d locks", err, s.store.Len())
				}
				panic("boom")
			})
	}()
	if r := <-after; r != "boom" || s.store.Len() != 0 {
		t.Errorf("%v arrived, %d locks are left", r, s.store.Len())
	}
}

// oneMessage is a stream that has a message.
type oneMessage struct {
	grpc.ServerStream
	ctx context.Context
}

func (o oneMessage) Context() context.Context { return o.ctx }
func (oneMessage) RecvMsg(m any) error {
	m.(*testpb.ReserveRequest).OrderId = "1"
	return nil
}

func TestACallerThatGoesAwayEndsAStreamThatWaits(t *testing.T) {
	waiting := make(chan struct{}, 1)
	over := make(chan error, 1)
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	}, nil, grpcmw.Method(chatMethod, "order:#{req.order_id}", latchkey.WaitForever()))
	s.chat = func(stream chatStream) error {
		_, err := stream.Recv()
		over <- err
		return err
	}
	release := s.hold(t, "order:zebra")
	ctx, cancel := context.WithCancel(t.Context())
	c, err := s.client.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Send(zebra)
	<-waiting
	cancel()
	if err := <-over; err == nil {
		t.Error("the handler went on without the lock")
	}
	release()
	soon(t, "the queue is empty", func() bool { return s.store.Len() == 0 })
}
