//go:build unix

package itest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	passesInARow = 16                     // from caller to caller inside a process
	turnsInARow  = passesInARow + 1       // of one process, then
	timeInARow   = 100 * time.Millisecond // before the last of them begins
	locals       = 2*turnsInARow + 6
)

// row is what happened to a crowd of one process, behind which somebody of another process waits.
type row struct {
	first             int // turns of the crowd before the other's, all of them if there is no other
	grants, handOvers int // how often the crowd had the lock from the store, and from one another
}

// inARow has a crowd wait for a key that somebody else holds, then one of another process if there is one, and lets go.
func inARow(t *testing.T, remote bool, body time.Duration, opts func(i int) []latchkey.HoldOption) (r row) {
	t.Helper()
	const key = "in a row"
	srv := testenv.Redis(t)
	before, s, other := connect(t, srv.Addr()), connect(t, srv.Addr()), connect(t, srv.Addr())
	held := before.take(t, key)
	queued := func(n int64) {
		t.Helper()
		eventually(t, strconv.FormatInt(n, 10)+" processes queue", func() bool { return srv.Do(t, "ZCARD", queueOf(key)) == n })
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var turns []bool // of the other?
	enter := func(s *service, ctx context.Context, isOther bool, opts []latchkey.HoldOption) {
		lease, err := s.Acquire(ctx, key, append(opts, latchkey.Wait(patience))...)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		turns = append(turns, isOther)
		mu.Unlock()
		if !isOther && body > 0 {
			<-time.After(body)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	for i := range locals {
		ctx := &queuedCtx{Context: context.Background(), queued: make(chan struct{})}
		all.Go(func() { enter(s, ctx, false, opts(i)) })
		hear(t, "caller "+strconv.Itoa(i)+" waits", ctx.queued)
	}
	queued(1)
	if remote {
		all.Go(func() { enter(other, context.Background(), true, nil) })
		queued(2)
	}
	release(t, held)
	all.Wait()
	if r.first = slices.Index(turns, true); r.first < 0 {
		r.first = len(turns)
	}
	r.grants, r.handOvers = s.events.count(latchkey.EventAcquired), s.events.count(latchkey.EventHandedOver)
	t.Logf("%d turns in a row; %d from the store, %d from one another", r.first, r.grants, r.handOvers)
	return r
}

func alike(int) []latchkey.HoldOption { return nil }

// The machine may have a bad moment, in which the time is over before the turns are: the best of some rounds counts.
func TestCrowdOfOneProcessLetsAnotherInAfterSoManyTurns(t *testing.T) {
	t.Parallel()
	most := 0
	for range 5 {
		r := inARow(t, true, 0, alike)
		if r.first > turnsInARow || r.handOvers > passesInARow*r.grants {
			t.Fatalf("somebody else waits, and one process has %d turns in a row, %d of them from the store", r.first, r.grants)
		}
		most = max(most, r.first)
	}
	if most != turnsInARow {
		t.Errorf("one process had at most %d turns in a row, which could be %d", most, turnsInARow)
	}
}

func TestCrowdOfOneProcessLetsAnotherInAfterSomeTime(t *testing.T) {
	t.Parallel()
	const body = 30 * time.Millisecond
	most := 0
	for range 2 {
		r := inARow(t, true, body, alike)
		// A turn begins within the time, and the first one at its start.
		if bound := int(timeInARow/body) + 1; r.first > bound {
			t.Fatalf("somebody else waits, and one process has %d turns of %v in a row, more than %d", r.first, body, bound)
		}
		most = max(most, r.first)
	}
	if most < 2 {
		t.Error("no turn was passed on inside the process: nothing is shown")
	}
}

// The controls: it is the hand-over inside the process that is bounded, and somebody who waits elsewhere who ends the row.
func TestTurnsInARowAreCounted(t *testing.T) {
	t.Parallel()
	t.Run("nobody else waits", func(t *testing.T) {
		t.Parallel()
		if r := inARow(t, false, 0, alike); r.first != locals || r.handOvers > passesInARow*r.grants {
			t.Errorf("%d turns of %d in a row, %d from the store and %d from one another", r.first, locals, r.grants, r.handOvers)
		}
	})
	t.Run("nothing can be handed over", func(t *testing.T) {
		t.Parallel()
		unlike := func(i int) []latchkey.HoldOption {
			return []latchkey.HoldOption{latchkey.RenewedLease(10*time.Second + time.Duration(i)*time.Second)}
		}
		if r := inARow(t, true, 0, unlike); r.first != 1 || r.handOvers != 0 {
			t.Errorf("%d turns in a row, %d of them handed over", r.first, r.handOvers)
		}
	})
}
