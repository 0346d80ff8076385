//go:build unix

package itest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// setNX is how other libraries lock.
func setNX(t *testing.T, srv *testenv.Server, key string) (taken bool) {
	t.Helper()
	return srv.Do(t, "SET", full(key), "somebody else", "NX", "PX", "60000") == "OK"
}

func TestWaiterForAForeignHolderIsNotLeftToItsLease(t *testing.T) {
	t.Parallel()
	const key, rounds = "foreign", 9
	srv := testenv.Redis(t)
	m := watch(t, srv)
	s := connect(t, srv.Addr())
	var gaps []time.Duration
	for round := range rounds {
		if !setNX(t, srv, key) {
			t.Fatal("the key is not free")
		}
		entered := make(chan *latchkey.Lease, 1)
		from := m.mark(t)
		go func() {
			lease, err := s.Acquire(context.Background(), key, latchkey.Wait(patience))
			if err != nil {
				t.Error(err)
			}
			entered <- lease
		}()
		s.events.await(t, latchkey.EventWaiting, round+1)
		// Let it ask a few times.
		var polls []told
		eventually(t, "the waiter has asked four times", func() bool {
			polls = m.between(from, m.mark(t), acquires)
			return len(polls) >= 4
		})
		srv.Do(t, "DEL", full(key))
		lease := hear(t, "the waiter is in", entered)
		to := m.mark(t)
		freed := m.said(from, to, "DEL")[0].at
		after := m.between(from, to, acquires)
		gaps = append(gaps, after[len(after)-1].at.Sub(freed))
		if n := len(after) - len(polls); n > 3 {
			t.Errorf("the waiter asked %d times after the key was free", n)
		}
		// Asking more often than every 37 ms would be a burden.
		if took := after[len(after)-1].at.Sub(after[0].at); len(after) > 3+int(took/(37*time.Millisecond)) {
			t.Errorf("the waiter asked %d times in %v", len(after), took)
		}
		release(t, lease)
	}
	slices.Sort(gaps)
	t.Logf("the waiter came %v after the key was free, in the middle of %d rounds", gaps[rounds/2], rounds)
	if gaps[rounds/2] > 100*time.Millisecond {
		t.Errorf("a waiter came %v after a foreign holder had gone, more than 100 ms", gaps[rounds/2])
	}
}

func TestForeignHolderAndLatchkeyRefuseEachOther(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	const key = "shared"

	if !setNX(t, srv, key) {
		t.Fatal("control: a free key can't be set")
	}
	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		if _, err := s.Acquire(context.Background(), key, latchkey.Wait(wait)); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("somebody else holds the key and Wait(%v) gets %v", wait, err)
		}
	}
	both := latchkey.Func(s.WithLock("#{param}"), func(context.Context, []string) (bool, error) { return true, nil })
	if ran, err := both(context.Background(), []string{"free", key}); ran || !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("somebody else holds one of two keys: ran %t, %v", ran, err)
	}
	if owner := look(t, srv, key).owner; owner != "somebody else" {
		t.Errorf("the foreign holder was replaced by %q", owner)
	}
	srv.Do(t, "DEL", full(key))

	refused := func(mode string) {
		t.Helper()
		if setNX(t, srv, key) {
			t.Fatalf("%s: SET NX took the key that latchkey holds", mode)
		}
	}
	first := s.take(t, key)
	refused("taken")
	entered := make(chan *latchkey.Lease, 1)
	go func() {
		lease, _ := other.Acquire(context.Background(), key, latchkey.Wait(patience))
		entered <- lease
	}()
	other.events.await(t, latchkey.EventWaiting, 1)
	refused("with a waiter")
	release(t, first)
	refused("on its way to the waiter")
	second := hear(t, "the waiter is in", entered)
	refused("handed over")
	release(t, second)

	minted := s.take(t, key, latchkey.MintToken())
	refused("with a token")
	release(t, minted)
	fixed := s.take(t, key, latchkey.LeaseFor(time.Minute))
	refused("with a fixed lease")
	release(t, fixed)
	ran, err := both(context.Background(), []string{"free", key})
	if !ran || err != nil {
		t.Errorf("both keys are free: ran %t, %v", ran, err)
	}
	many := latchkey.Func(s.WithLock("#{param}"), func(context.Context, []string) (bool, error) {
		refused("one of many")
		return true, nil
	})
	if _, err := many(context.Background(), []string{"free", key}); err != nil {
		t.Error(err)
	}
	srv.Do(t, "DEL", counterOf(key)) // it outlives the lock, for an hour
	nothingLeft(t, srv)
}
