package quorumstore_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// deaf is a store whose hints are all lost.
type deaf struct{ latchkey.Store }

func (*deaf) Listen(func(latchkey.Push)) (stop func()) { return func() {} }

// events tells of waiters.
type events struct{ waiting chan struct{} }

func (e events) Observe(_ context.Context, ev latchkey.Event) {
	if ev.Kind == latchkey.EventWaiting {
		e.waiting <- struct{}{}
	}
}

// counted counts renewals.
type counted struct{ n atomic.Int64 }

func (c *counted) Observe(_ context.Context, ev latchkey.Event) {
	if ev.Kind == latchkey.EventRenewed {
		c.n.Add(1)
	}
}

// handOver has one process hold a key and another one wait for it, again and again, and returns how long after the release
// the waiter was in, sorted.
func handOver(t *testing.T, one, other latchkey.Store, servers []*testenv.Server, rounds int) []time.Duration {
	t.Helper()
	e := events{make(chan struct{}, 1)}
	holder, waiter := lock(t, one), lock(t, other, latchkey.Observe(e))
	var took []time.Duration
	for range rounds {
		lease := take(t, holder, "k", latchkey.RenewedLease(5*time.Second))
		in := make(chan time.Time, 1)
		go func() {
			next, err := waiter.Acquire(t.Context(), "k", latchkey.Wait(limit), latchkey.RenewedLease(5*time.Second))
			in <- time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			_ = next.Release(t.Context())
		}()
		<-e.waiting
		// It has a place in the queues before it is told of as waiting, on those masters that refused it by then.
		released := time.Now()
		release(t, lease)
		took = append(took, (<-in).Sub(released))
		eventually(t, "the waiter has let go", func() bool { return holders(t, servers, "") == 0 })
	}
	slices.Sort(took)
	return took
}

func TestAHintWakesTheWaiter(t *testing.T) {
	const rounds = 11
	servers := masters(t, 5)
	polled := handOver(t, open(t, addrs(servers)), &deaf{open(t, addrs(servers))}, servers, rounds)
	hinted := handOver(t, open(t, addrs(servers)), open(t, addrs(servers)), servers, rounds)
	t.Logf("hand-over to another process: %v, without hints %v", at(hinted, 50), at(polled, 50))
	if at(hinted, 50) > at(polled, 50)/3 {
		t.Errorf("with hints a hand-over takes %v, without %v: the hints do not wake", at(hinted, 50), at(polled, 50))
	}
	nothingLeft(t, servers)
}

// Four of five masters tell the waiter nothing: the hint of one is enough.
func TestTheHintOfOneMasterIsEnough(t *testing.T) {
	const rounds = 7
	c := start(t, 5)
	for _, p := range c.proxies[:4] {
		p.SwallowReplies(testenv.Containing("subscribe"))
	}
	polled := handOver(t, open(t, addrs(c.servers)), &deaf{open(t, addrs(c.servers))}, c.servers, rounds)
	hinted := handOver(t, open(t, addrs(c.servers)), open(t, c.addrs()), c.servers, rounds)
	t.Logf("hand-over with one hint: %v, without %v", at(hinted, 50), at(polled, 50))
	for _, p := range c.proxies[:4] {
		if p.Counts().SwallowedReplies == 0 {
			t.Error("void: a subscription that was to be deaf was not")
		}
	}
	if at(hinted, 50) > at(polled, 50)/3 {
		t.Errorf("with one hint a hand-over takes %v, without %v", at(hinted, 50), at(polled, 50))
	}
}

// One who died while it queued keeps its place, and the hint that was meant for the next.
func TestADeadWaiterDoesNotBlockTheQueue(t *testing.T) {
	servers := masters(t, 3)
	store := open(t, addrs(servers))
	holder, waiter := lock(t, store), lock(t, open(t, addrs(servers)))
	lease := take(t, holder, "k")
	stop := store.Listen(func(latchkey.Push) {})
	defer stop()
	dead := do(store, latchkey.Op{
		Kind: latchkey.OpAcquire, Key: "latchkey:k", Owner: "lk:dead", Lease: time.Minute, Queue: true, Grant: time.Minute,
	})
	if dead.OK || dead.Err != nil {
		t.Fatalf("OK = %t, %v; want a refusal", dead.OK, dead.Err)
	}
	queued := servers[0].Do(t, "ZCARD", "{latchkey:k}:q").(int64) + servers[1].Do(t, "ZCARD", "{latchkey:k}:q").(int64)
	if queued == 0 {
		t.Fatal("void: the dead one has no place")
	}
	in := make(chan *latchkey.Lease, 1)
	go func() {
		next, err := waiter.Acquire(t.Context(), "k", latchkey.Wait(limit))
		if err != nil {
			t.Error(err)
		}
		in <- next
	}()
	eventually(t, "both queue", func() bool { return servers[0].Do(t, "ZCARD", "{latchkey:k}:q") == int64(2) })
	release(t, lease)
	if next := <-in; next != nil {
		release(t, next)
	}
}

// Whoever gives up waiting leaves its places.
func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	servers := masters(t, 3)
	holder, waiter := lock(t, open(t, addrs(servers))), lock(t, open(t, addrs(servers)))
	lease := take(t, holder, "k")
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := waiter.Acquire(ctx, "k", latchkey.WaitForever(), latchkey.RenewedLease(3*time.Second))
		answer <- err
	}()
	eventually(t, "it queues everywhere", func() bool {
		for _, s := range servers {
			if s.Do(t, "ZCARD", "{latchkey:k}:q") != int64(1) {
				return false
			}
		}
		return true
	})
	cancel()
	if err := <-answer; !errors.Is(err, latchkey.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want ErrBusy and the cause", err)
	}
	release(t, lease)
	nothingLeft(t, servers)
}
