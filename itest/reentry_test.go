//go:build unix

package itest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// kept ends the test unless the server has the key held by that owner; "" for a key that is free.
func kept(t *testing.T, srv *testenv.Server, key, owner string) {
	t.Helper()
	if now := look(t, srv, key).owner; now != owner {
		t.Fatalf("%q is held by %q, not by %q", key, now, owner)
	}
}

func TestSameKeyInsideItselfIsEnteredAndKeptUntilTheLastOneIsOut(t *testing.T) {
	t.Parallel()
	const key = "again"
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	ctx := context.Background()
	outer := s.take(t, key)
	owner := look(t, srv, key).owner
	before := srv.Commands(t)
	inner := s.takeIn(t, outer.Context(), key)
	innermost := s.takeIn(t, inner.Context(), key, latchkey.WaitForever())
	if after := srv.Commands(t); after["set"] != before["set"] || after["evalsha"] != before["evalsha"] {
		t.Errorf("re-entering asked the server: %v, then %v", before, after)
	}
	// Control: without the context it is somebody else.
	if _, err := s.Acquire(ctx, key); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("a caller without the lease got in: %v", err)
	}
	token := func(l *latchkey.Lease) int64 {
		n, err := l.Token(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := token(outer), token(innermost); a != b {
		t.Errorf("one hold has the tokens %d and %d", a, b)
	}
	// Out in any order: the key stays until the last one is.
	release(t, outer)
	kept(t, srv, key, owner)
	release(t, innermost)
	kept(t, srv, key, owner)
	if !s.Held(inner.Context(), key) || s.Held(outer.Context(), key) {
		t.Error("the lease that is left is not held, or the one that was released is")
	}
	release(t, inner)
	kept(t, srv, key, "")
}

func TestGoroutinesThatShareTheContextShareTheLock(t *testing.T) {
	t.Parallel()
	const key, sharers = "together", 16
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	outer := s.take(t, key)
	owner := look(t, srv, key).owner
	var in, out sync.WaitGroup
	in.Add(sharers)
	leases := make(chan *latchkey.Lease, sharers)
	for range sharers {
		out.Go(func() {
			lease, err := s.Acquire(outer.Context(), key)
			if err != nil {
				t.Error(err)
			}
			in.Done()
			leases <- lease
		})
	}
	in.Wait()
	release(t, outer)
	out.Wait()
	for i := range sharers {
		kept(t, srv, key, owner)
		if _, err := s.Acquire(context.Background(), key); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("%d of %d are still in and somebody else got in: %v", sharers-i, sharers, err)
		}
		release(t, <-leases)
	}
	kept(t, srv, key, "")
}

func TestOtherKeyInsideIsAcquiredAndBothAreHeld(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	outer := s.take(t, "first")
	inner := s.takeIn(t, outer.Context(), "second")
	ctx := inner.Context()
	if !s.Held(ctx, "first") || !s.Held(ctx, "second") || s.Held(outer.Context(), "second") {
		t.Error("the contexts do not tell which keys they hold")
	}
	if keys := srv.Keys(t); len(keys) != 2 {
		t.Errorf("the server has %v", keys)
	}
	again := s.takeIn(t, ctx, "first") // through the inner one
	release(t, again)
	release(t, inner)
	kept(t, srv, "second", "")
	if look(t, srv, "first").owner == "" {
		t.Error("the outer key went with the inner one")
	}
	release(t, outer)
	nothingLeft(t, srv)
}

func TestContextThatOutlivedItsLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	const key = "outlived"
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	first := s.take(t, key)
	old := context.WithoutCancel(first.Context()) // still carries the lease
	was := look(t, srv, key).owner
	release(t, first)
	if s.Held(old, key) {
		t.Error("a lease that was released is held")
	}
	second := s.takeIn(t, old, key)
	if now := look(t, srv, key).owner; now == was || now == "" {
		t.Errorf("the key is held by %q, who held it before", now)
	}
	release(t, second)
	third := other.take(t, key)
	if _, err := s.Acquire(old, key); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("an old lease let somebody into a lock that another process holds: %v", err)
	}
	release(t, third)
	nothingLeft(t, srv)
}

func TestSecondLocksOverTheSameStoreEnterToo(t *testing.T) {
	t.Parallel()
	const key = "two doors"
	srv := testenv.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	defer client.Close()
	store := redisstore.New(client)
	front, back := latchkey.New(store), latchkey.New(store)
	defer front.Close()
	defer back.Close()
	elsewhere := latchkey.New(store, latchkey.Namespace("elsewhere"))
	defer elsewhere.Close()

	ctx := context.Background()
	outer, err := front.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	owner := look(t, srv, key).owner
	inner, err := back.Acquire(outer.Context(), key, latchkey.Wait(patience))
	if err != nil {
		t.Fatalf("the same key in the same store, through another door: %v", err)
	}
	if !back.Held(outer.Context(), key) || elsewhere.Held(outer.Context(), key) {
		t.Error("a lease counts for the full key in its store, whatever the Locks")
	}
	other, err := elsewhere.Acquire(inner.Context(), key)
	if err != nil {
		t.Fatalf("the same key in another namespace: %v", err)
	}
	if keys := srv.Keys(t); len(keys) != 2 {
		t.Errorf("the server has %v", keys)
	}
	release(t, other)
	release(t, outer)
	kept(t, srv, key, owner)
	release(t, inner)
	nothingLeft(t, srv)
}

func TestReentryDoesNotDeadlockBehindWaiters(t *testing.T) {
	t.Parallel()
	const key, callers, depth = "deep", 8, 5
	srv := testenv.Redis(t)
	services := []*service{connect(t, srv.Addr()), connect(t, srv.Addr())}
	var all sync.WaitGroup
	for _, s := range services {
		var down func(ctx context.Context, n int) (int, error)
		down = latchkey.Func(s.WithLock("deep", latchkey.Wait(patience)), func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return 0, nil
			}
			below, err := down(ctx, n-1)
			return below + 1, err
		})
		for range callers {
			all.Go(func() {
				for range 20 {
					if n, err := down(context.Background(), depth); n != depth || err != nil {
						t.Errorf("came to depth %d: %v", n, err)
						return
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	hear(t, "all callers are through", done)
	if n := services[0].events.count(latchkey.EventWaiting); n == 0 {
		t.Error("nobody waited: nothing is shown")
	}
	nothingLeft(t, srv)
}
