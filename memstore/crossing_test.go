package memstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enough crossings show something.
const enough = 50

// eyed is a memstore that counts what is given up, and that may be made to forget who gave up.
type eyed struct {
	*memstore.Store
	forgetful bool

	released  atomic.Int64 // locks
	takenBack atomic.Int64 // locks of waiters who had given up by then
}

func (s *eyed) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpRelease && op.Leave && s.forgetful {
			op.Reset()
			continue
		}
		s.Store.Do(ctx, []*latchkey.Op{op})
		switch {
		case op.Kind != latchkey.OpRelease:
		case !op.Leave:
			s.released.Add(1)
		case op.OK:
			s.takenBack.Add(1)
		}
	}
}

// queued is a context that tells when somebody begins to listen to it, which a waiter does when it has its place.
type queued struct {
	context.Context
	listens chan struct{}
	told    atomic.Bool
}

func (c *queued) Done() <-chan struct{} {
	if c.told.CompareAndSwap(false, true) {
		close(c.listens)
	}
	return c.Context.Done()
}

// crossed is how that went.
type crossed struct {
	rounds    int
	cancelled int // waiters who gave up
	crossings int // times they had been given the lock by then
	stranded  int // times nobody could get in after both had gone
}

// spinFor passes a time that is too short for a timer.
func spinFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}

// cross cancels a waiter at the very moment the holder lets go, until that has hit the moment often enough, and has a third
// caller show that the lock was passed on. The moment is short: without the race detector one round of a few hundred hits it.
func cross(t *testing.T, store *eyed, sameLocks bool) (c crossed) {
	t.Helper()
	holds, third := latchkey.New(store), latchkey.New(store)
	wants := holds
	if !sameLocks {
		wants = latchkey.New(store)
	}
	defer holds.Close()
	defer third.Close()
	defer wants.Close()
	end := time.Now().Add(time.Minute)
	for ; c.crossings+int(store.takenBack.Load()) < enough && time.Now().Before(end); c.rounds++ {
		held, err := holds.Acquire(t.Context(), "k", latchkey.Wait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := &queued{Context: ctx, listens: make(chan struct{})}
		answer := make(chan error, 1)
		go func() {
			lease, err := wants.Acquire(wait, "k", latchkey.WaitForever())
			if err == nil {
				err = lease.Release(ctx)
			}
			answer <- err
		}()
		<-wait.listens
		before := store.released.Load()
		go func() {
			spinFor(rand.N(4 * time.Microsecond))
			cancel()
		}()
		spinFor(rand.N(4 * time.Microsecond))
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		beside := store.released.Load() == before // the lock went to the waiter within these Locks
		err = <-answer
		if err != nil {
			if !errors.Is(err, latchkey.ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Fatalf("a waiter was cancelled and was answered %v", err)
			}
			c.cancelled++
			if beside {
				c.crossings++
			}
		}
		cancel()
		lease, err := third.Acquire(t.Context(), "k", latchkey.Wait(1500*time.Millisecond))
		if err != nil {
			c.stranded++
			return c
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.crossings += int(store.takenBack.Load())
	return c
}

func TestGrantInMemoryThatCrossesACancellationIsPassedOn(t *testing.T) {
	for name, sameLocks := range map[string]bool{"same Locks": true, "two Locks": false} {
		t.Run(name, func(t *testing.T) {
			c := cross(t, &eyed{Store: memstore.New()}, sameLocks)
			t.Logf("%+v", c)
			if c.stranded > 0 {
				t.Errorf("round %d: nobody had the lock and yet it was not free", c.rounds)
			}
			if c.crossings < enough || c.cancelled == c.rounds {
				t.Error("void: the two did not cross often enough")
			}
		})
	}
}

// The control: a store that never hears that a waiter has given up.
func TestGrantInMemoryThatIsNotTakenBackIsSeenToStrand(t *testing.T) {
	if c := cross(t, &eyed{Store: memstore.New(), forgetful: true}, false); c.stranded == 0 {
		t.Errorf("no lock was stranded: the harness sees nothing: %+v", c)
	}
}
