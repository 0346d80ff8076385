//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Hooks that panic, fail or end their goroutine change nothing for the others, nor for the call.
func TestHookPanicStorm(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	var failures, observed atomic.Int64
	m := latchkey.NewTxManager(db, latchkey.OnHookError(func(context.Context, error) {
		failures.Add(1)
		panic("who hears failures may fail as well")
	}))
	locks := latchkey.New(memstore.New(), latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventHookFailed {
			observed.Add(1)
		}
	})))
	const hooks = 200
	for _, end := range []error{nil, errOwn} {
		failures.Store(0)
		observed.Store(0)
		var ran [2][hooks]int
		goexits := 0
		storm := func(list, i int) error {
			ran[list][i]++
			switch i % 4 {
			case 1:
				return errOwn
			case 2:
				panic(fmt.Sprint("hook ", i))
			case 3:
				if i%20 == 3 {
					goexits++
					runtime.Goexit()
				}
			}
			return nil
		}
		f := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
			for i := range hooks {
				after := latchkey.AfterCommit
				if end != nil {
					after = latchkey.AfterRollback
				}
				if err := errors.Join(
					after(ctx, func(context.Context) error { return storm(0, i) }),
					latchkey.AfterCompletion(ctx, func(context.Context, latchkey.Outcome) { _ = storm(1, i) }),
				); err != nil {
					t.Error(err)
				}
			}
			return end
		})
		_, _ = inGoroutine(func() error { return f(t.Context(), "a") }) // ends in a hook
		for list := range ran {
			for i, n := range ran[list] {
				if n != 1 {
					t.Errorf("end %v: hook %d of list %d ran %d times", end, i, list, n)
				}
			}
		}
		if goexits == 0 || failures.Load() < hooks/2 || observed.Load() != failures.Load() {
			t.Errorf("%d goroutine ends, %d failures heard, %d observed", goexits, failures.Load(), observed.Load())
		}
		if _, err := locks.Acquire(t.Context(), "k:a"); err != nil {
			t.Errorf("still locked: %v", err)
		} else if end == nil {
			locks = latchkey.New(memstore.New(), latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
				if e.Kind == latchkey.EventHookFailed {
					observed.Add(1)
				}
			})))
		}
	}
}

func TestFailedHookDoesNotFailACommittedCall(t *testing.T) {
	d := newDatabase(t, "sqlite")
	m := latchkey.NewTxManager(d.open(t, 0))
	err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
		return latchkey.AfterCommit(ctx, func(context.Context) error { return errOwn })
	})
	if err != nil {
		t.Errorf("got %v, and somebody would repeat a call that was committed", err)
	}
}

func TestFailedBeforeCommitHookRollsBack(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db)
		for _, hook := range []func(context.Context) error{
			func(context.Context) error { return errOwn },
			func(context.Context) error { panic(errOwn) },
		} {
			later := false
			err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
				return errors.Join(add(ctx, tx, "a", 1), latchkey.BeforeCommit(ctx, hook),
					latchkey.BeforeCommit(ctx, func(context.Context) error { later = true; return nil }))
			})
			if !errors.Is(err, errOwn) || value(t, db, "a") != 0 || later {
				t.Errorf("got %v, changed by %d, later hooks ran: %v", err, value(t, db, "a"), later)
			}
		}
	})
}

func TestHookRegistration(t *testing.T) {
	d := newDatabase(t, "sqlite")
	m := latchkey.NewTxManager(d.open(t, 0))
	nothing := func(context.Context) error { return nil }
	if err := latchkey.AfterCommit(t.Context(), nothing); !errors.Is(err, latchkey.ErrNoTx) {
		t.Errorf("outside a transaction: %v, want ErrNoTx", err)
	}
	var j journal
	var kept context.Context
	err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
		kept = ctx
		note := func(what string, more func(ctx context.Context)) func(context.Context) error {
			return func(ctx context.Context) error {
				j.addf("%s", what)
				if more != nil {
					more(ctx)
				}
				return nil
			}
		}
		return errors.Join(
			latchkey.BeforeCommit(ctx, note("before 1", func(ctx context.Context) {
				if err := latchkey.BeforeCommit(ctx, note("before 3, from before 1", nil)); err != nil {
					t.Error(err)
				}
			})),
			latchkey.BeforeCommit(ctx, note("before 2", nil)),
			latchkey.AfterCommit(ctx, note("after 1", func(ctx context.Context) {
				if err := errors.Join(
					latchkey.AfterCommit(ctx, note("after 3, from after 1", nil)),
					latchkey.AfterCompletion(ctx, func(context.Context, latchkey.Outcome) { j.addf("over, from after 1") }),
				); err != nil {
					t.Error(err)
				}
				if err := latchkey.BeforeCommit(ctx, nothing); !errors.Is(err, latchkey.ErrTxFinished) {
					t.Errorf("BeforeCommit after COMMIT: %v, want ErrTxFinished", err)
				}
				if err := latchkey.AfterRollback(ctx, nothing); !errors.Is(err, latchkey.ErrTxFinished) {
					t.Errorf("AfterRollback after COMMIT: %v, want ErrTxFinished", err)
				}
				if _, ok := latchkey.TxFrom(ctx); ok {
					t.Error("a hook after COMMIT finds an open transaction")
				}
			})),
			latchkey.AfterCommit(ctx, note("after 2", nil)),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	j.want(t, "before 1", "before 2", "before 3, from before 1", "after 1", "after 2", "after 3, from after 1", "over, from after 1")
	for name, register := range map[string]func(context.Context, func(context.Context) error) error{
		"BeforeCommit": latchkey.BeforeCommit, "AfterCommit": latchkey.AfterCommit, "AfterRollback": latchkey.AfterRollback,
	} {
		if err := register(kept, nothing); !errors.Is(err, latchkey.ErrTxFinished) {
			t.Errorf("%s after the end: %v, want ErrTxFinished", name, err)
		}
		if err := register(kept, nil); err == nil {
			t.Errorf("%s(nil): no error", name)
		}
	}
}

// A hook that ignores its context holds its caller, but not the lock: the lease is not renewed any more.
func TestHookThatIgnoresItsContextLosesTheLock(t *testing.T) {
	d := newDatabase(t, "sqlite")
	m := latchkey.NewTxManager(d.open(t, 0), latchkey.HookTimeout(20*time.Millisecond))
	locks := latchkey.New(memstore.New(), latchkey.RenewedLease(90*time.Millisecond))
	started, release := make(chan struct{}), make(chan struct{})
	f := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
		return latchkey.AfterCommit(ctx, func(context.Context) error {
			close(started)
			<-release
			return nil
		})
	})
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = f(t.Context(), "a") })
	<-started
	le, taken := locks.Acquire(t.Context(), "k:a", latchkey.Wait(30*time.Second))
	close(release)
	wg.Wait()
	if taken != nil {
		t.Errorf("the next one did not get the lock: %v", taken)
	} else {
		_ = le.Release(t.Context())
	}
	if err != nil {
		t.Errorf("the call was committed and returned %v", err)
	}
}

func TestInTxInsideAHookBeginsAnew(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 1) // the connection is back in the pool when hooks run
		m := latchkey.NewTxManager(db)
		var inner error
		err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
			return latchkey.AfterCommit(ctx, func(ctx context.Context) error {
				inner = m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error { return add(ctx, tx, "a", 1) })
				return nil
			})
		})
		if err != nil || inner != nil || value(t, db, "a") != 1 {
			t.Errorf("got %v and %v, changed by %d", err, inner, value(t, db, "a"))
		}
	})
}

func TestHookErrorsNameThePanic(t *testing.T) {
	d := newDatabase(t, "sqlite")
	var heard error
	m := latchkey.NewTxManager(d.open(t, 0), latchkey.OnHookError(func(_ context.Context, err error) { heard = err }))
	_ = m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
		return latchkey.AfterCommit(ctx, func(context.Context) error { panic("spilled") })
	})
	if heard == nil || !strings.Contains(heard.Error(), "spilled") || !strings.Contains(heard.Error(), "txhooks_test.go") {
		t.Errorf("heard %v; want the panic's value and where it was", heard)
	}
}
