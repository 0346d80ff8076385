package quorumstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
)

// eared is a store that counts the hints that it hears, and that may be made to forget who gave up.
type eared struct {
	latchkey.Store
	forgetful bool
	hints     atomic.Int64
}

func (s *eared) Listen(heard func(latchkey.Push)) (stop func()) {
	return s.Store.Listen(func(push latchkey.Push) {
		if push.Owner != "" {
			s.hints.Add(1)
		}
		heard(push)
	})
}

func (s *eared) Do(ctx context.Context, ops []*latchkey.Op) {
	rest := make([]*latchkey.Op, 0, len(ops))
	for _, op := range ops {
		if op.Kind == latchkey.OpRelease && op.Leave && s.forgetful {
			op.Reset()
			continue
		}
		rest = append(rest, op)
	}
	if len(rest) > 0 {
		s.Store.Do(ctx, rest)
	}
}

// cross cancels a waiter at about the moment at which it is told that the lock is free, again and again, and has a third
// caller show that the lock can be had. It returns how often the waiter gave up though it had been told, and how often nobody
// could get in.
func cross(t *testing.T, rounds int, forgetful bool) (crossings, stranded int) {
	t.Helper()
	const lease = 10 * time.Second
	servers := masters(t, 3)
	store := &eared{Store: open(t, addrs(servers)), forgetful: forgetful}
	e := events{make(chan struct{}, 1)}
	holds, wants, third := lock(t, open(t, addrs(servers))), lock(t, store, latchkey.Observe(e)), lock(t, open(t, addrs(servers)))
	for range rounds {
		held := take(t, holds, "k", latchkey.RenewedLease(lease))
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			next, err := wants.Acquire(ctx, "k", latchkey.WaitForever(), latchkey.RenewedLease(lease))
			if err == nil {
				_ = next.Release(ctx)
			}
			answer <- err
		}()
		<-e.waiting
		hints := store.hints.Load()
		time.AfterFunc(rand.N(3*time.Millisecond), cancel)
		release(t, held)
		err := <-answer
		switch {
		case err != nil && (!errors.Is(err, latchkey.ErrBusy) || !errors.Is(err, context.Canceled)):
			t.Fatalf("a waiter was cancelled and was answered %v", err)
		case err != nil && store.hints.Load() > hints:
			crossings++
		}
		cancel()
		last, err := third.Acquire(t.Context(), "k", latchkey.Wait(lease/4))
		if err != nil {
			return crossings, stranded + 1
		}
		release(t, last)
	}
	free(t, servers, "k")
	return crossings, stranded
}

func TestAHintThatCrossesACancellationStrandsNobody(t *testing.T) {
	t.Parallel()
	const rounds = 120
	crossings, stranded := cross(t, rounds, false)
	t.Logf("%d of %d waiters gave up as they were told", crossings, rounds)
	if stranded > 0 {
		t.Error("nobody had the lock and yet it was not to be had")
	}
	if crossings < rounds/20 {
		t.Error("void: the two did not cross often enough")
	}
}

// The control: votes that a waiter got as it gave up are not given back.
func TestVotesOfAWaiterWhoGaveUpAreSeenToStrand(t *testing.T) {
	t.Parallel()
	if crossings, stranded := cross(t, 1000, true); stranded == 0 {
		t.Errorf("no lock was stranded in %d crossings: the harness sees nothing", crossings)
	}
}
