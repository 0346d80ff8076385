//go:build unix

package itest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const crossings = 5_000 // in each of two ways

// forgetful is a store that never hears that a waiter has given up.
type forgetful struct{ latchkey.Store }

// Do implements [latchkey.Store].
func (f *forgetful) Do(ctx context.Context, ops []*latchkey.Op) {
	var rest []*latchkey.Op
	for _, op := range ops {
		if op.Kind == latchkey.OpRelease && op.Leave {
			op.Reset()
		} else {
			rest = append(rest, op)
		}
	}
	if len(rest) > 0 {
		f.Store.Do(ctx, rest)
	}
}

// counting is a store that counts how often a lock was let go through it.
type counting struct {
	latchkey.Store
	releases atomic.Int64
}

// Do implements [latchkey.Store].
func (s *counting) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpRelease && !op.Leave {
			s.releases.Add(1)
		}
	}
	s.Store.Do(ctx, ops)
}

// crossed is how the rounds of cross ended.
type crossed struct {
	entered   int // the waiter has the lock
	cancelled int // it gave up
	crossings int // times it had been given the lock by then, by the server or within the process
	stranded  int // times a third caller could not get in after both had gone
	polled    int // times it took the third as long as if it had not been told
	answers   []error
}

// cross cancels a waiter at the very moment the holder lets go, again and again, and has a third caller, who waits as
// well, show that the lock was passed on.
func cross(t *testing.T, rounds int, place string, around func(latchkey.Store) latchkey.Store) (c crossed) {
	t.Helper()
	const key = "crossed"
	srv := testenv.Redis(t)
	var let counting
	holds := connectBy(t, &redis.Options{Addr: srv.Addr()}, func(s latchkey.Store) latchkey.Store {
		let.Store = s
		return &let
	})
	third := connect(t, srv.Addr())
	// One is let go a little before the other, or after: about as long before as it takes to go over.
	wants, cancelWithin, releaseWithin := holds, 4*time.Microsecond, 4*time.Microsecond
	if place == "other process" {
		cancelWithin, releaseWithin = 1500*time.Microsecond, time.Microsecond
		wants = connectBy(t, &redis.Options{Addr: srv.Addr()}, around)
	}
	m := watch(t, srv)
	// In one process the moment is short, and shorter without the race detector: there it goes on until it was hit often.
	for n := 0; n < rounds || place == "same process" && c.crossings < rounds/100 && n < 10*rounds; n++ {
		held, err := holds.Acquire(context.Background(), key, latchkey.Wait(patience))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		queued := &queuedCtx{Context: ctx, queued: make(chan struct{})}
		waits := wants.events.count(latchkey.EventWaiting) + 1
		answer := make(chan error, 1)
		go func() {
			lease, err := wants.Acquire(queued, key, latchkey.WaitForever())
			if err == nil {
				_ = lease.Release(ctx)
			}
			answer <- err
		}()
		wants.events.await(t, latchkey.EventWaiting, waits)
		hear(t, "the caller waits", queued.queued)
		behind, begin := make(chan error, 1), time.Now()
		go func() {
			lease, err := third.Acquire(context.Background(), key, latchkey.Wait(1200*time.Millisecond))
			if err == nil {
				err = lease.Release(context.Background())
			}
			behind <- err
		}()
		go func() {
			spinFor(rand.N(cancelWithin))
			cancel()
		}()
		spinFor(rand.N(releaseWithin))
		before := let.releases.Load()
		if err := held.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		// The server was not asked: the lock went to the waiter beside.
		passed := let.releases.Load() == before
		switch err := hear(t, "the waiter has an answer", answer); {
		case err == nil:
			c.entered++
		case errors.Is(err, context.Canceled):
			c.cancelled++
			if passed {
				c.crossings++
			}
			c.answers = append(c.answers, err)
		default:
			t.Fatal(err)
		}
		cancel()
		switch err := hear(t, "the third has an answer", behind); {
		case errors.Is(err, latchkey.ErrBusy):
			c.stranded++
			return c
		case err != nil:
			t.Fatal(err)
		case time.Since(begin) > 370*time.Millisecond: // the shortest time between two polls
			c.polled++
		}
	}
	nothingLeft(t, srv)
	if place == "other process" {
		c.crossings = m.lettingGoOfGrants(0, m.mark(t))
	}
	return c
}

// spinFor passes a time that is too short for a timer.
func spinFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}

// lettingGoOfGrants is how often somebody gave up a place in the queue that had turned into the lock by then.
func (m *monitor) lettingGoOfGrants(from, to int) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	leaving := false
	for _, c := range m.seen[from:to] {
		switch {
		case !c.script:
			leaving = m.kind(c) == leaves
		case leaving && strings.EqualFold(c.args[0], "ZPOPMIN"): // it looks who is next
			n++
		}
	}
	return n
}

func TestGrantThatCrossesACancellationIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			c := cross(t, crossings, place, plain)
			t.Logf("%d entered, %d cancelled, %d of these after they had been given the lock", c.entered, c.cancelled, c.crossings)
			if c.stranded > 0 {
				t.Errorf("round %d: nobody had the lock and yet it was not free", c.entered+c.cancelled)
			}
			if c.polled > crossings/50 {
				t.Errorf("%d times the third had to find out by itself that the lock was free", c.polled)
			}
			// In two processes it is more than half.
			least := map[string]int{"same process": crossings / 100, "other process": crossings / 10}
			if c.entered < crossings/50 || c.crossings < least[place] {
				t.Error("void: the two did not cross often enough")
			}
			for _, err := range c.answers {
				if !errors.Is(err, latchkey.ErrBusy) || errors.Is(err, latchkey.ErrStore) {
					t.Fatalf("a waiter was cancelled and was answered %v", err)
				}
			}
		})
	}
}

func TestGrantToAWaiterWhoseCancellationIsNotToldIsSeenToStrand(t *testing.T) {
	t.Parallel()
	c := cross(t, crossings, "other process", func(s latchkey.Store) latchkey.Store { return &forgetful{s} })
	t.Logf("%d entered, %d cancelled, %d stranded", c.entered, c.cancelled, c.stranded)
	if c.stranded == 0 {
		t.Error("no lock was stranded: the harness sees nothing")
	}
}
