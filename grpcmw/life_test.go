package grpcmw_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

// soon waits for something that must become true.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("not within 10 s: ", what)
			return
		}
	}
}

// overlaps calls one method for one order many times at once and counts how often two of the calls were inside together.
func overlaps(t *testing.T, rules ...grpcmw.Option) (ran, together int64) {
	t.Helper()
	var inside, all, met atomic.Int64
	s := open(t, rules...)
	s.unary = func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		all.Add(1)
		if inside.Add(1) > 1 {
			met.Add(1)
		}
		time.Sleep(time.Millisecond) // the work
		inside.Add(-1)
		return &testpb.ReserveResponse{}, nil
	}
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, err := s.client.Reserve(t.Context(), zebra); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return all.Load(), met.Load()
}

func TestCallsOfOneKeyNeverRunTogether(t *testing.T) {
	rule := grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.Wait(20*time.Second))
	if ran, together := overlaps(t, rule); ran != 40 || together != 0 {
		t.Errorf("%d ran, %d of them while another was inside", ran, together)
	}
	if ran, together := overlaps(t); together == 0 {
		t.Errorf("control: %d ran without the lock and none met another: the test shows nothing", ran)
	}
}

func TestPanicsPassAfterTheRelease(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	unary := grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(reserve, "order:#{req.order_id}"))
	defer func() {
		if r := recover(); r != "boom" || store.Len() != 0 {
			t.Errorf("%v arrived, %d locks are left", r, store.Len())
		}
	}()
	_, _ = unary(t.Context(), zebra, &grpc.UnaryServerInfo{FullMethod: reserve}, func(ctx context.Context, _ any) (any, error) {
		if !locks.Held(ctx, "order:zebra") {
			t.Error("not held")
		}
		panic("boom")
	})
}

func TestACallerThatGoesAwayWhileWaitingLeavesTheQueue(t *testing.T) {
	waiting := make(chan struct{}, 1)
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	}, nil, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.WaitForever()))
	s.unary = never(t)
	release := s.hold(t, "order:zebra")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting; cancel() }()
	if _, err := s.client.Reserve(ctx, zebra); status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	s.server.GracefulStop() // so that the call is over here too
	release()
	soon(t, "the queue is empty", func() bool { return s.store.Len() == 0 })
}

func TestACallerThatGoesAwayWhileTheMethodRunsEndsItsContext(t *testing.T) {
	running, done := make(chan struct{}), make(chan error, 1)
	s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}"))
	s.unary = func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		close(running)
		<-ctx.Done()
		done <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-running; cancel() }()
	_, _ = s.client.Reserve(ctx, zebra)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v", err)
	}
	soon(t, "the lock is released", func() bool { return s.store.Len() == 0 })
}

func TestAServerThatStopsGracefullyLetsWaitersAndHoldersFinish(t *testing.T) {
	waiting, running := make(chan struct{}, 1), make(chan struct{}, 2)
	finish := make(chan struct{})
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	}, nil, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.WaitForever()))
	s.unary = func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		running <- struct{}{}
		<-finish
		return sayKeys(ctx, nil)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			resp, err := s.client.Reserve(t.Context(), zebra)
			if err != nil || len(resp.GetKeys()) != 1 {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
	<-running
	<-waiting
	stopped := make(chan struct{})
	go func() { s.server.GracefulStop(); close(stopped) }()
	close(finish)
	wg.Wait()
	<-stopped
}

func TestAServerThatStopsAtOnceReleasesEverything(t *testing.T) {
	waiting, running := make(chan struct{}, 1), make(chan struct{}, 2)
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	}, nil, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.WaitForever()))
	s.unary = func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		running <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := s.client.Reserve(t.Context(), zebra); err == nil {
				t.Error("a call succeeded on a server that stopped")
			}
		})
	}
	<-running
	<-waiting
	s.server.Stop()
	wg.Wait()
	soon(t, "nothing is held or queued for", func() bool { return s.store.Len() == 0 })
}
