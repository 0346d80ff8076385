package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

// errBroken is what gRPC says about a message that it can't read.
var errBroken = status.Error(codes.Internal, "no message")

// brokenFirst is a stream whose first message can't be read; those that follow can.
type brokenFirst struct {
	grpc.ServerStream
	ctx  context.Context
	sent *int
	read int
}

func (b *brokenFirst) Context() context.Context { return b.ctx }
func (b *brokenFirst) SendMsg(any) error        { *b.sent++; return nil }
func (b *brokenFirst) RecvMsg(m any) error {
	if b.read++; b.read == 1 {
		return errBroken
	}
	m.(*testpb.ReserveRequest).OrderId = "1"
	return nil
}

func TestAStreamWhoseFirstMessageFailsGetsNoLaterOneWithoutTheLock(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	rule := grpcmw.Method(chatMethod, "order:#{req.order_id}")
	for name, rules := range map[string][]grpcmw.Option{"locked": {rule}, "control": nil} {
		rules := mustRules(t, locks, rules...)
		sent, unlocked := 0, 0
		err := rules.Stream()(nil, &brokenFirst{ctx: t.Context(), sent: &sent}, &grpc.StreamServerInfo{FullMethod: chatMethod},
			func(_ any, ss grpc.ServerStream) error { // goes on whatever happens, and says that all is well
				for range 3 {
					if ss.RecvMsg(&testpb.ReserveRequest{}) == nil && store.Len() == 0 {
						unlocked++
					}
					_ = ss.SendMsg(&testpb.ReserveResponse{})
				}
				if name == "locked" && ss.Context().Err() == nil {
					t.Error("the context of a stream without its lock goes on")
				}
				return nil
			})
		if name == "control" {
			if unlocked != 2 || sent != 3 || err != nil {
				t.Errorf("control: %d messages without a lock, %d sent, %v: the test shows nothing", unlocked, sent, err)
			}
			continue
		}
		if unlocked != 0 || sent != 0 || !errors.Is(err, errBroken) {
			t.Errorf("%d messages without the lock, %d sent, %v", unlocked, sent, err)
		}
	}
}

func mustRules(t *testing.T, locks *latchkey.Locks, rules ...grpcmw.Option) *grpcmw.RuleSet {
	t.Helper()
	set, err := grpcmw.Rules(locks, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// raw sends bytes as they are.
type raw struct{}

func (raw) Name() string                         { return "proto" }
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func TestAMalformedFirstMessageOverTheWireEndsItsStream(t *testing.T) {
	s := open(t, grpcmw.Method(chatMethod, "order:#{req.order_id}"))
	seen := make(chan []error, 1)
	s.chat = func(stream chatStream) error {
		var errs []error
		for range 2 {
			_, err := stream.Recv()
			errs = append(errs, err)
		}
		seen <- append(errs, stream.Send(&testpb.ReserveResponse{}), stream.Context().Err())
		return nil
	}
	c, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod, grpc.ForceCodecV2(raw{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range [][]byte{{0xff}, {0x0a, 1, '1'}} { // the second is order 1
		_ = c.SendMsg(message)
	}
	for i, err := range <-seen {
		if err == nil {
			t.Errorf("operation %d on a stream without its lock succeeded", i)
		}
	}
	if err := c.RecvMsg(nil); status.Code(err) != codes.Internal || errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
