//go:build unix

package itest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// A lock is busy for callers of the process that holds it and for callers of others.
var places = []string{"same process", "other process"}

// besides returns the service that holds and the one that wants the lock.
func besides(t *testing.T, srv *testenv.Server, place string) (holds, wants *service) {
	t.Helper()
	holds = connect(t, srv.Addr())
	if place == "same process" {
		return holds, holds
	}
	return holds, connect(t, srv.Addr())
}

// busy checks what every answer about a busy lock says.
func busy(t *testing.T, key string, err error) *latchkey.BusyError {
	t.Helper()
	var b *latchkey.BusyError
	if !errors.Is(err, latchkey.ErrBusy) || !errors.As(err, &b) || b.Key != key {
		t.Fatalf("a busy lock was answered with %v", err)
	}
	if errors.Is(err, latchkey.ErrStore) {
		t.Errorf("%v: matches ErrStore", err)
	}
	return b
}

func TestCallerWhoDoesNotWaitIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			const key, lease = "now or never", time.Hour
			srv := testenv.Redis(t)
			holds, wants := besides(t, srv, place)
			held := holds.take(t, key, latchkey.RenewedLease(lease))
			_, err := wants.Acquire(context.Background(), key, latchkey.Wait(0))
			b := busy(t, key, err)
			if b.Waited != 0 || b.RetryAfter < lease*9/10 || b.RetryAfter > lease || b.Cause != nil {
				t.Errorf("waited %v, come back in %v, because of %v", b.Waited, b.RetryAfter, b.Cause)
			}
			release(t, held)
			release(t, wants.take(t, key, latchkey.Wait(0))) // control: it was the holder
			nothingLeft(t, srv)
		})
	}
}

func TestWaitLastsAsLongAsItWasToldTo(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			const key, wait = "in a while", 300 * time.Millisecond
			srv := testenv.Redis(t)
			holds, wants := besides(t, srv, place)
			held := holds.take(t, key)
			begin := time.Now()
			_, err := wants.Acquire(context.Background(), key, latchkey.Wait(wait))
			took := time.Since(begin)
			b := busy(t, key, err)
			if b.Waited < wait || b.Waited > took || b.Cause != nil {
				t.Errorf("waited %v of %v, says %v, because of %v", took, wait, b.Waited, b.Cause)
			}
			eventually(t, "the place in the queue is given up", func() bool {
				return number(t, srv.Do(t, "ZCARD", queueOf(key))) == 0
			})
			release(t, held)
			nothingLeft(t, srv)
		})
	}
}

func TestCancelledWaitEndsAtOnceAndGivesUpItsPlace(t *testing.T) {
	t.Parallel()
	cause := errors.New("the customer left")
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			const key = "no more"
			srv := testenv.Redis(t)
			holds, wants := besides(t, srv, place)
			held := holds.take(t, key)
			ctx, cancel := context.WithCancelCause(context.Background())
			queued := &queuedCtx{Context: ctx, queued: make(chan struct{})}
			answer := make(chan error, 1)
			go func() {
				_, err := wants.Acquire(queued, key, latchkey.WaitForever())
				answer <- err
			}()
			wants.events.await(t, latchkey.EventWaiting, 1)
			hear(t, "the caller waits", queued.queued)
			if place == "other process" && number(t, srv.Do(t, "ZCARD", queueOf(key))) != 1 {
				t.Fatal("the caller has no place in the queue: nothing is shown")
			}
			cancel(cause)
			err := hear(t, "the cancelled wait has ended", answer)
			if b := busy(t, key, err); !errors.Is(b.Cause, cause) || !errors.Is(err, cause) {
				t.Errorf("cancelled because %v and says %v", cause, err)
			}
			eventually(t, "the place in the queue is given up", func() bool {
				return number(t, srv.Do(t, "ZCARD", queueOf(key))) == 0
			})
			if owner := look(t, srv, key).owner; owner == "" {
				t.Error("the holder has lost its lock to a waiter that gave up")
			}
			release(t, held)
			nothingLeft(t, srv)
		})
	}
}

func TestDeadlineOfTheCallerEndsTheWait(t *testing.T) {
	t.Parallel()
	const key = "deadline"
	srv := testenv.Redis(t)
	holds, wants := besides(t, srv, "other process")
	held := holds.take(t, key)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := wants.Acquire(ctx, key, latchkey.WaitForever())
	if busy(t, key, err); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the deadline has passed and the answer is %v", err)
	}
	release(t, held)
	nothingLeft(t, srv)
}

func TestCancelledCallerDoesNotAskAtAll(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	cause := errors.New("gone before it began")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	for _, wait := range []latchkey.HoldOption{latchkey.Wait(0), latchkey.Wait(time.Minute), latchkey.WaitForever()} {
		_, err := s.Acquire(ctx, "unasked", wait)
		if !errors.Is(err, cause) || !errors.Is(err, latchkey.ErrStore) || errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("cancelled before it asked: %v", err)
		}
	}
	if n := srv.Commands(t); n["set"]+n["evalsha"] > 0 {
		t.Errorf("the server was asked: %v", n)
	}
}
