package latchkey_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
)

// forms are one key and several: what holds for one must hold for a list.
var forms = map[string][]string{"one key": {"a"}, "list": {"a", "b"}}

// lateStore answers acquires after a while.
func lateStore(after time.Duration) *faultStore {
	store := newFaultStore()
	store.breakBefore(func(op *latchkey.Op) error {
		if op.Kind == latchkey.OpAcquire {
			time.Sleep(after)
		}
		return nil
	})
	return store
}

// The store's answer came when the lease that it speaks of had ended.
func TestALockThatComesAfterItsLeaseHasEndedIsNotUsed(t *testing.T) {
	for form, keys := range forms {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := lateStore(500 * time.Millisecond)
				locks := latchkey.New(store, latchkey.OpTimeout(time.Second))
				defer locks.Close()
				ran := false
				f := latchkey.Action(locks.WithLock("#{param}", latchkey.LeaseFor(300*time.Millisecond)),
					func(context.Context, []string) error { ran = true; return nil })
				if err := f(t.Context(), keys); ran || !errors.Is(err, latchkey.ErrStore) {
					t.Errorf("ran = %t, %v; want ErrStore", ran, err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A caller that had to wait for the one ahead, whose own caller then went away, counted its lease from before that wait.
func TestALeaseIsNotCountedFromBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lateStore(200 * time.Millisecond)
		locks := latchkey.New(store, latchkey.OpTimeout(2*time.Second))
		defer locks.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		go func() { _, _ = locks.Acquire(ctx, "a") }()
		synctest.Wait()
		ran := false
		f := latchkey.Action0(locks.WithLock("a", latchkey.LeaseFor(300*time.Millisecond)), func(context.Context) error { ran = true; return nil })
		time.Sleep(time.Millisecond)
		if err := f(t.Context()); !ran && !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("ran = %t, %v", ran, err)
		}
		time.Sleep(time.Minute)
	})
}

// The caller's context ended a moment before the store's answer.
func TestALockThatComesAfterItsCallerHasGoneIsLetGo(t *testing.T) {
	for form, keys := range forms {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := lateStore(500 * time.Millisecond)
				locks := latchkey.New(store, latchkey.OpTimeout(time.Second))
				defer locks.Close()
				ran := false
				f := latchkey.Action(locks.WithLock("#{param}"), func(context.Context, []string) error { ran = true; return nil })
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond-time.Microsecond)
				defer cancel()
				if err := f(ctx, keys); ran || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ran = %t, %v; want the end of the context", ran, err)
				}
				time.Sleep(time.Minute)
				for _, key := range keys {
					if !free(t, store, key) {
						t.Errorf("%s is locked", key)
					}
				}
			})
		})
	}
}

// While the last key of a list was waited for the lease of the first one ended: the function ran without it.
func TestAListIsHeldWholeWhenItsFunctionRuns(t *testing.T) {
	for name, many := range map[string]bool{"all at once": true, "one after the other": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultStore()
				store.caps = func(c *latchkey.Capabilities) { c.ManyKeys = many }
				locks, other := latchkey.New(store), latchkey.New(store)
				defer locks.Close()
				defer other.Close()
				held, err := other.Acquire(t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
				begin := time.Now()
				f := latchkey.Action(
					locks.WithLock("#{param}", latchkey.LeaseFor(300*time.Millisecond), latchkey.Wait(5*time.Second)),
					func(ctx context.Context, keys []string) error {
						for _, key := range keys {
							if free(t, store, key) || !locks.Held(ctx, key) {
								t.Errorf("after %v the function runs without %s", time.Since(begin), key)
							}
						}
						return nil
					})
				if err := f(t.Context(), []string{"a", "b"}); err != nil {
					t.Error(err)
				}
				if waited := time.Since(begin); waited < time.Second {
					t.Errorf("void: b was free after %v", waited)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A lock whose first request got no answer, and that the store had forgotten by the time of the release, was released as
// if nothing had happened.
func TestAForgottenLockThatWasAskedForTwiceIsNotReleasedInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		failed := false
		store.breakBefore(func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpAcquire && !failed {
				failed = true
				return errInjected
			}
			return nil
		})
		locks := latchkey.New(store)
		defer locks.Close()
		lease, err := locks.Acquire(t.Context(), "k")
		if err != nil || !failed {
			t.Fatalf("failed = %t, %v", failed, err)
		}
		store.forget()
		if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("Release: %v, want ErrLeaseLost", err)
		}
		time.Sleep(2 * time.Minute)
	})
}
