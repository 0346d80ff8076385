package latchkey_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
)

// crowd has n callers call f at once and returns their errors and when the last one had its answer.
func crowd(n int, f func() error) (errs []error, last time.Duration) {
	begin := time.Now()
	answers := make(chan error)
	for range n {
		go func() { answers <- f() }()
	}
	for range n {
		errs = append(errs, <-answers)
	}
	return errs, time.Since(begin)
}

// deadStore is a store that answers nothing, or nothing but errors, until it is back.
func deadStore(hangs bool) (store *faultStore, back func()) {
	store = newFaultStore()
	alive := make(chan struct{})
	store.breakBefore(func(*latchkey.Op) error {
		if hangs {
			<-alive
		}
		return errInjected
	})
	return store, func() {
		close(alive)
		store.breakBefore(nil)
		time.Sleep(2 * time.Minute) // what is to be taken back
	}
}

// Callers of one key queued behind one who asked a dead store: those who did not wait were told that the lock is busy, which
// nobody had seen, and those who did wait asked the dead store one after the other, each for an op timeout of its own.
func TestAllCallersOfAKeyHearOfADeadStoreTogether(t *testing.T) {
	const callers, opTimeout = 20, time.Second
	for _, name := range []string{"fails", "hangs"} {
		for wait, opt := range map[string]latchkey.DecoratorOption{"no wait": latchkey.Wait(0), "wait": latchkey.WaitForever()} {
			for form, template := range map[string]string{"one key": "k", "list": "k:#{param}"} {
				t.Run(name+", "+wait+", "+form, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store, back := deadStore(name == "hangs")
						locks := latchkey.New(store, latchkey.OpTimeout(opTimeout))
						defer locks.Close()
						var ran, busy atomic.Int64
						f := latchkey.Action(locks.WithLock(template, opt), func(context.Context, []string) error {
							ran.Add(1)
							return nil
						}, latchkey.OnBusy(func(context.Context, []string, *latchkey.BusyError) (latchkey.None, error) {
							busy.Add(1)
							return latchkey.None{}, nil
						}))
						errs, last := crowd(callers, func() error { return f(t.Context(), []string{"a", "b"}) })
						for _, err := range errs {
							if !errors.Is(err, latchkey.ErrStore) || errors.Is(err, latchkey.ErrBusy) {
								t.Errorf("err = %v, want ErrStore", err)
							}
						}
						if ran.Load() != 0 || busy.Load() != 0 {
							t.Errorf("the function ran %d times, OnBusy %d times", ran.Load(), busy.Load())
						}
						if last > opTimeout*3/2 {
							t.Errorf("the last caller heard after %v; an op timeout is %v", last, opTimeout)
						}
						back()
					})
				})
			}
		}
	}
}

// The control of the test above: with a holder, the same callers are told that the lock is busy, and for how long. They
// share one answer.
func TestAllCallersWhoDoNotWaitShareTheStoresAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		holder := latchkey.New(store)
		defer holder.Close()
		lease, err := holder.Acquire(t.Context(), "k", latchkey.LeaseFor(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		store.breakBefore(func(*latchkey.Op) error { time.Sleep(10 * time.Millisecond); return nil })
		asked := store.count(latchkey.OpAcquire)
		locks := latchkey.New(store)
		defer locks.Close()
		errs, _ := crowd(50, func() error {
			_, err := locks.Acquire(t.Context(), "k")
			return err
		})
		for _, err := range errs {
			var busy *latchkey.BusyError
			if !errors.As(err, &busy) || busy.RetryAfter < 50*time.Second {
				t.Errorf("err = %v, come back after %v; want busy, for about a minute", err, busy.RetryAfter)
			}
		}
		if n := store.count(latchkey.OpAcquire) - asked; n > 2 { // SET NX, and for the details
			t.Errorf("the store was asked %d times", n)
		}
		_ = lease.Release(t.Context())
		time.Sleep(time.Minute)
	})
}

// Only who waited behind a holder may say that the lock is busy.
func TestAWaitBehindSomebodyWhoAsksADeadStoreIsNotBusy(t *testing.T) {
	for name, c := range map[string]struct {
		wait   latchkey.HoldOption
		within time.Duration
	}{
		"wait is over":  {latchkey.Wait(100 * time.Millisecond), time.Hour},
		"context ended": {latchkey.WaitForever(), 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, back := deadStore(true)
				locks := latchkey.New(store, latchkey.OpTimeout(time.Second))
				defer locks.Close()
				go func() { _, _ = locks.Acquire(t.Context(), "k", latchkey.WaitForever()) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				_, err := locks.Acquire(ctx, "k", c.wait)
				if !errors.Is(err, latchkey.ErrStore) || errors.Is(err, latchkey.ErrBusy) {
					t.Errorf("err = %v, want ErrStore", err)
				}
				back()
			})
		})
	}
}

// A short wait ended before the store had answered the one ahead: the store was called dead though it was only slow.
func TestAShortWaitBehindSomebodyWhoAsksASlowStoreIsBusy(t *testing.T) {
	for name, held := range map[string]bool{"held elsewhere": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultStore()
				other, locks := latchkey.New(store), latchkey.New(store)
				defer other.Close()
				defer locks.Close()
				if held {
					if _, err := other.Acquire(t.Context(), "k", latchkey.LeaseFor(time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
				store.breakBefore(func(*latchkey.Op) error { time.Sleep(200 * time.Millisecond); return nil })
				go func() { _, _ = locks.Acquire(t.Context(), "k", latchkey.WaitForever(), latchkey.MaxHold(time.Second)) }()
				synctest.Wait()
				if _, err := locks.Acquire(t.Context(), "k", latchkey.Wait(50*time.Millisecond)); !errors.Is(err, latchkey.ErrBusy) {
					t.Errorf("err = %v, want ErrBusy", err)
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// A list whose request got no answer was not asked for again.
func TestAListIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		var failed bool
		store.breakBefore(func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpAcquire && !failed {
				failed = true
				return errInjected
			}
			return nil
		})
		locks := latchkey.New(store)
		defer locks.Close()
		ran := false
		f := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, []string) error { ran = true; return nil })
		if err := f(t.Context(), []string{"a", "b"}); err != nil || !ran || !failed {
			t.Errorf("failed = %t, ran = %t, %v", failed, ran, err)
		}
		time.Sleep(time.Minute) // the undo of the first request
		if !free(t, store, "k:a") || !free(t, store, "k:b") {
			t.Error("a lock is left")
		}
	})
}
