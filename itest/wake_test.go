//go:build unix

package itest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// deaf is a store whose pushes are all lost.
type deaf struct{ latchkey.Store }

// Listen implements [latchkey.Store].
func (*deaf) Listen(func(latchkey.Push)) (stop func()) { return func() {} }

// handOvers has a process hold a key, one here wait for it, and the process let go, again and again. It returns how
// often the waiter asked for the key between the other's release and its own entry.
func handOvers(t *testing.T, rounds int, around func(latchkey.Store) latchkey.Store) (asked int) {
	t.Helper()
	const key = "handed"
	srv := testenv.Redis(t)
	m := watch(t, srv)
	s := connectBy(t, &redis.Options{Addr: srv.Addr()}, around)
	child := holdIn(t, srv, key, 30*time.Second)
	for round := range rounds {
		if round > 0 {
			child.Sayf(t, "again")
			expect(t, child, "held")
		}
		entered := make(chan error, 1)
		var lease *latchkey.Lease
		go func() {
			var err error
			lease, err = s.Acquire(context.Background(), key, latchkey.Wait(patience))
			entered <- err
		}()
		s.events.await(t, latchkey.EventWaiting, round+1)
		from := m.mark(t)
		child.Sayf(t, "let go")
		if err := hear(t, "the waiter is in", entered); err != nil {
			t.Fatal(err)
		}
		to := m.mark(t)
		expect(t, child, endedWell)
		released := m.between(from, to, releases)
		if len(released) != 1 {
			t.Fatalf("the holder released %d times", len(released))
		}
		for _, op := range m.between(from, to, acquires) {
			if op.at.After(released[0].at) {
				asked++
			}
		}
		release(t, lease)
	}
	t.Logf("%d locks went from process to process; the waiter asked for %d of them", rounds, asked)
	return asked
}

func TestWaiterIsPushedInAndDoesNotPoll(t *testing.T) {
	t.Parallel()
	// A poll may fall into the moment of the release, rarely.
	if asked := handOvers(t, 100, plain); asked > 10 {
		t.Errorf("the waiter asked for the lock after %d of 100 releases", asked)
	}
}

func TestWaiterWhoHearsNothingPollsItsWayIn(t *testing.T) {
	t.Parallel()
	const rounds = 5
	if asked := handOvers(t, rounds, func(s latchkey.Store) latchkey.Store { return &deaf{s} }); asked < rounds {
		t.Errorf("without pushes the waiter got in %d times and asked only %d times", rounds, asked)
	}
}

func TestWaitersGetInThoughTheirPushesAreLost(t *testing.T) {
	t.Parallel()
	const key, callers, turns, services = "cut", 4, 5, 3
	srv := testenv.Redis(t)
	m := watch(t, srv)
	from, begin := m.mark(t), time.Now()
	var killed atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				n, _ := m.rdb.Do(context.Background(), "CLIENT", "KILL", "TYPE", "pubsub").Int64()
				killed.Add(n)
			}
		}
	}()
	var all sync.WaitGroup
	var inside, most atomic.Int64
	for range services {
		s := connect(t, srv.Addr())
		for range callers {
			all.Go(func() {
				for range turns {
					lease, err := s.Acquire(context.Background(), key, latchkey.Wait(patience))
					if err != nil {
						t.Error(err)
						return
					}
					most.Store(max(most.Load(), inside.Add(1)))
					<-time.After(5 * time.Millisecond)
					inside.Add(-1)
					_ = lease.Release(context.Background())
				}
			})
		}
	}
	all.Wait()
	took := time.Since(begin)
	close(stop)
	<-stopped
	to := m.mark(t)
	asked := len(m.between(from, to, acquires))
	handed := len(m.said(from, to, "PUBLISH"))
	t.Logf("%d subscriptions cut, %d locks handed over, %d attempts in %v", killed.Load(), handed, asked, took)
	if most.Load() != 1 {
		t.Errorf("%d callers had the lock at once", most.Load())
	}
	if killed.Load() < services || handed == 0 {
		t.Error("no subscription was cut while locks were handed over: nothing is shown")
	}
	if bound := 3*services*callers*turns + services*int(took/(375*time.Millisecond)+1); asked > bound {
		t.Errorf("the server was asked %d times for the key, more than %d", asked, bound)
	}
}

func TestWaiterWhosePushIsLostGetsIn(t *testing.T) {
	t.Parallel()
	const key, rounds = "unheard", 5
	srv := testenv.Redis(t)
	m := watch(t, srv)
	a, b := connect(t, srv.Addr()), connect(t, srv.Addr())
	lost := 0
	for round := range rounds {
		held := a.take(t, key)
		entered := make(chan *latchkey.Lease, 1)
		go func() {
			lease, err := b.Acquire(context.Background(), key, latchkey.Wait(patience))
			if err != nil {
				t.Error(err)
			}
			entered <- lease
		}()
		b.events.await(t, latchkey.EventWaiting, round+1)
		from := m.mark(t)
		srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		release(t, held)
		lease := hear(t, "the waiter is in", entered)
		to := m.mark(t)
		if n := len(m.between(from, to, acquires)); n > 0 {
			lost++ // it had to ask
			if n > 3 {
				t.Errorf("the waiter asked %d times", n)
			}
		}
		release(t, lease)
		eventually(t, "the subscription is there again", func() bool {
			return len(srv.Do(t, "PUBSUB", "CHANNELS").([]any)) > 0
		})
	}
	if lost == 0 {
		t.Errorf("in %d rounds no push was lost: nothing is shown", rounds)
	}
}
