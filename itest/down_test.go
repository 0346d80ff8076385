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

const opTimeout = 300 * time.Millisecond

// shortLease is for how long what was left of an unanswered request is guarded against.
var shortLease = latchkey.RenewedLease(time.Second)

// impatience has the ways to call a function while the store is not there.
var impatience = map[string]latchkey.HoldOption{
	"does not wait": latchkey.Wait(0),
	"waits":         latchkey.Wait(time.Minute),
	"waits forever": latchkey.WaitForever(),
}

// callDown calls a function while the store does not answer.
func callDown(t *testing.T, s *service, wait latchkey.HoldOption) {
	t.Helper()
	call := latchkey.Func0(s.WithLock("down", wait, shortLease), func(context.Context) (string, error) { return "ran", nil })
	begin := time.Now()
	result, err := call(context.Background())
	took := time.Since(begin)
	if result != "" || !errors.Is(err, latchkey.ErrStore) || errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("the store is down and the call returns %q, %v", result, err)
	}
	// About one op timeout; a wait of a minute must not hide it. The machine may be slow.
	if took > 10*opTimeout {
		t.Errorf("the call took %v to fail, with an op timeout of %v", took, opTimeout)
	}
	t.Logf("%v: %v", took.Round(time.Millisecond), err)
}

// callUp calls a function while the store answers. It waits a little: a request of a call that was given up may arrive only
// now, and stands in the way until it is taken back.
func callUp(t *testing.T, s *service) {
	t.Helper()
	call := latchkey.Func0(s.WithLock("down", latchkey.Wait(10*time.Second)), func(context.Context) (string, error) { return "ran", nil })
	if result, err := call(context.Background()); result != "ran" || err != nil {
		t.Errorf("the store is there and the call returns %q, %v", result, err)
	}
}

func TestFunctionDoesNotRunWhileTheStoreIsDead(t *testing.T) {
	t.Parallel()
	for name, wait := range impatience {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			s := connect(t, srv.Addr(), latchkey.OpTimeout(opTimeout))
			callUp(t, s)
			srv.Kill(t)
			callDown(t, s, wait)
			srv.Restart(t, testenv.LoseData)
			callUp(t, s)
			nothingLeft(t, srv)
		})
	}
}

func TestFunctionDoesNotRunWhileTheStoreHangsAndLeavesNothingThere(t *testing.T) {
	t.Parallel()
	for name, wait := range impatience {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			s := connect(t, srv.Addr(), latchkey.OpTimeout(opTimeout))
			callUp(t, s)
			srv.ResetStats(t)
			srv.Pause(t)
			callDown(t, s, wait)
			srv.Resume(t)
			// What was sent while the server hung is carried out now: the lock that nobody got must be taken back.
			eventually(t, "the late request was carried out and undone", func() bool {
				n := srv.Commands(t)
				return n["set"] > 0 && n["del"] > 0 && len(srv.Keys(t)) == 0
			})
			callUp(t, s)
		})
	}
}

func TestWaiterSurvivesARestartOfTheStore(t *testing.T) {
	t.Parallel()
	const key = "restarted"
	srv := testenv.Redis(t)
	a, b := connect(t, srv.Addr(), latchkey.OpTimeout(5*time.Second)), connect(t, srv.Addr(), latchkey.OpTimeout(5*time.Second))
	held := a.take(t, key)
	entered := make(chan error, 1)
	go func() {
		lease, err := b.Acquire(context.Background(), key, latchkey.Wait(patience))
		if err == nil {
			err = lease.Release(context.Background())
		}
		entered <- err
	}()
	b.events.await(t, latchkey.EventWaiting, 1)
	srv.Restart(t, testenv.KeepData)
	if owner := look(t, srv, key).owner; owner == "" {
		t.Fatal("the server has forgotten the lock: nothing is shown")
	}
	release(t, held)
	if err := hear(t, "the waiter is in", entered); err != nil {
		t.Error(err)
	}
	nothingLeft(t, srv)
}

func TestScriptsAreToldAgainWhereverTheyAreForgotten(t *testing.T) {
	t.Parallel()
	const key = "flushed"
	srv := testenv.Redis(t)
	a, b := connect(t, srv.Addr()), connect(t, srv.Addr())
	flush := func() { srv.Do(t, "SCRIPT", "FLUSH") }
	unknown := func() int64 {
		stats := srv.Info(t, "errorstats")["errorstat_NOSCRIPT"]
		if stats == "" {
			return 0
		}
		return number(t, stats[len("count="):])
	}
	step := func(name string, f func()) {
		t.Helper()
		flush()
		before := unknown()
		f()
		if unknown() == before {
			t.Errorf("%s: the server knew its scripts: nothing is shown", name)
		}
	}
	step("acquire and release", func() { release(t, a.take(t, key, latchkey.MintToken())) })
	held := a.take(t, key, latchkey.RenewedLease(time.Second))
	step("mint", func() {
		if _, err := held.Token(context.Background()); err != nil {
			t.Error(err)
		}
	})
	step("refuse", func() {
		if _, err := b.Acquire(context.Background(), key); !errors.Is(err, latchkey.ErrBusy) {
			t.Error(err)
		}
	})
	step("renew", func() { a.events.await(t, latchkey.EventRenewed, a.events.count(latchkey.EventRenewed)+1) })
	entered := make(chan *latchkey.Lease, 1)
	step("wait", func() {
		go func() {
			lease, err := b.Acquire(context.Background(), key, latchkey.Wait(patience))
			if err != nil {
				t.Error(err)
			}
			entered <- lease
		}()
		b.events.await(t, latchkey.EventWaiting, 1)
	})
	step("hand over", func() { release(t, held) })
	lease := hear(t, "the waiter is in", entered)
	step("release", func() { release(t, lease) })
	step("many", func() {
		both := latchkey.Func(a.WithLock("#{param}"), func(context.Context, []string) (bool, error) { return true, nil })
		if ran, err := both(context.Background(), []string{"x", "y"}); !ran || err != nil {
			t.Errorf("many keys: ran %t, %v", ran, err)
		}
	})
	srv.Do(t, "DEL", counterOf(key))
	nothingLeft(t, srv)
}
