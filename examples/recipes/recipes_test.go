//go:build unix

package recipes

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

var errOwn = errors.New("the work's own error")

// increment is the read-modify-write that loses updates without a lock.
func increment(ctx context.Context, c counter) error {
	n, err := c.get(ctx)
	if err != nil {
		return err
	}
	return c.set(ctx, n+1)
}

// queue makes locks that tell when somebody has begun to wait.
func queue() (locks *latchkey.Locks, waiting <-chan struct{}) {
	seen := make(chan struct{}, 1)
	return latchkey.New(memstore.New(), latchkey.WaitForever(),
		latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
			if e.Kind == latchkey.EventWaiting {
				seen <- struct{}{}
			}
		}))), seen
}

// TestLockIsHeldUntilTheCommitIsVisible has a second caller wait for the lock while the first one's transaction is open.
func TestLockIsHeldUntilTheCommitIsVisible(t *testing.T) {
	libraries(t, func(t *testing.T, l library) {
		locks, waiting := queue()
		defer locks.Close()
		second := make(chan error, 1)
		read := 0
		count := latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) error {
			return l.recipe(ctx, func(ctx context.Context, c counter) error {
				if err := latchkey.AfterCommit(ctx, func(ctx context.Context) error {
					if n, err := l.outside.get(ctx); err != nil || n != 1 {
						t.Errorf("the hook sees %d, %v; want 1, committed", n, err)
					}
					if _, err := locks.Acquire(context.WithoutCancel(t.Context()), "counter", latchkey.Wait(0)); !errors.Is(err, latchkey.ErrBusy) {
						t.Errorf("the lock was free before the hook ran: %v", err)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				if err := increment(ctx, c); err != nil {
					return err
				}
				go func() {
					second <- latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) (err error) {
						if read, err = l.outside.get(ctx); err != nil {
							return err
						}
						return l.recipe(ctx, func(ctx context.Context, c counter) error { return c.set(ctx, read+1) })
					})(t.Context())
				}()
				<-waiting
				return nil
			})
		})
		if err := count(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		n, err := l.outside.get(t.Context())
		if err != nil || n != 2 || read != 1 {
			t.Errorf("the second caller read %d and the counter is %d (%v), want 1 and 2", read, n, err)
		}
	})
}

// TestUnlockBeforeCommitLosesAnUpdate is the control: the same two callers, and the first one lets the lock go too early.
func TestUnlockBeforeCommitLosesAnUpdate(t *testing.T) {
	libraries(t, func(t *testing.T, l library) {
		locks, _ := queue()
		defer locks.Close()
		second, hasRead, committed := make(chan error, 1), make(chan struct{}), make(chan struct{})
		err := l.byHand(t.Context(), func(ctx context.Context, c counter) error {
			lock := latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) error { return increment(ctx, c) })
			if err := lock(ctx); err != nil {
				return err
			}
			go func() {
				second <- latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) error {
					read, err := l.outside.get(ctx)
					close(hasRead)
					if err != nil {
						return err
					}
					<-committed
					return l.byHand(ctx, func(ctx context.Context, c counter) error { return c.set(ctx, read+1) })
				})(t.Context())
			}()
			<-hasRead
			return nil
		})
		close(committed)
		if err := errors.Join(err, <-second); err != nil {
			t.Fatal(err)
		}
		if n, err := l.outside.get(t.Context()); err != nil || n != 1 {
			t.Errorf("the counter is %d (%v); the control should have lost one of two", n, err)
		}
	})
}

func TestWorkThatFailsWritesNothingAndLetsGo(t *testing.T) {
	for name, end := range map[string]func() error{
		"error":   func() error { return errOwn },
		"panic":   func() error { panic(errOwn) },
		"Goexit":  func() error { runtime.Goexit(); return nil },
		"FailNow": func() error { new(testing.T).FailNow(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			libraries(t, func(t *testing.T, l library) {
				locks, _ := queue()
				defer locks.Close()
				wrote, rolledBack := false, false
				count := latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) error {
					return l.recipe(ctx, func(ctx context.Context, c counter) error {
						err := errors.Join(increment(ctx, c), latchkey.AfterRollback(ctx, func(context.Context) error {
							rolledBack = true
							return nil
						}))
						if err != nil {
							t.Error(err)
						}
						wrote = true
						return end()
					})
				})
				var err error
				done := make(chan any)
				go func() {
					defer func() { done <- recover() }()
					err = count(t.Context())
				}()
				if recovered := <-done; (recovered != nil) != (name == "panic") || name == "error" && !errors.Is(err, errOwn) {
					t.Errorf("recovered %v, returned %v", recovered, err)
				}
				if n, err := l.outside.get(t.Context()); err != nil || n != 0 || !wrote || !rolledBack {
					t.Errorf("the counter is %d (%v), written: %v, the hook ran: %v", n, err, wrote, rolledBack)
				}
				if _, err := locks.Acquire(t.Context(), "counter", latchkey.Wait(0)); err != nil {
					t.Errorf("still locked: %v", err)
				}
			})
		})
	}
}

// What the database refuses in the middle of a transaction is no lost COMMIT: the lock is let go at once.
func TestStatementThatTheDatabaseRefusesIsRolledBackAndNotUnknown(t *testing.T) {
	libraries(t, func(t *testing.T, l library) {
		locks, _ := queue()
		defer locks.Close()
		rolledBack := false
		err := latchkey.Action0(locks.WithLock("counter"), func(ctx context.Context) error {
			return l.recipe(ctx, func(ctx context.Context, c counter) error {
				return errors.Join(increment(ctx, c), latchkey.AfterRollback(ctx, func(context.Context) error {
					rolledBack = true
					return nil
				}), c.set(ctx, 1000)) // more than the constraint allows
			})
		})(t.Context())
		if err == nil || errors.Is(err, latchkey.ErrOutcomeUnknown) || !rolledBack {
			t.Errorf("got %v, AfterRollback ran: %v", err, rolledBack)
		}
		if n, err := l.outside.get(t.Context()); err != nil || n != 0 {
			t.Errorf("the counter is %d (%v)", n, err)
		}
		if _, err := locks.Acquire(t.Context(), "counter", latchkey.Wait(0)); err != nil {
			t.Errorf("still locked: %v", err)
		}
	})
}

// overtaken has an older holder read, a newer one count, and the older one write what follows from what it read. The two
// got the same lock from stores that know nothing of each other.
func overtaken(t *testing.T, l library, in func(context.Context, work) error) (n int, err error) {
	t.Helper()
	var old, young *latchkey.Lease
	for _, lease := range []**latchkey.Lease{&old, &young} {
		locks := latchkey.New(memstore.New())
		defer locks.Close()
		if *lease, err = locks.Acquire(t.Context(), "counter"); err != nil {
			t.Fatal(err)
		}
		defer (*lease).Release(context.WithoutCancel(t.Context()))
	}
	read := -1
	if err := in(old.Context(), func(ctx context.Context, c counter) (err error) { read, err = c.get(ctx); return err }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := in(young.Context(), increment); err != nil {
			t.Fatal(err)
		}
	}
	err = in(old.Context(), func(ctx context.Context, c counter) error { return c.set(ctx, read+1) })
	n, failed := l.outside.get(t.Context())
	if failed != nil {
		t.Fatal(failed)
	}
	return n, err
}

func TestOvertakenHolderIsFencedOff(t *testing.T) {
	libraries(t, func(t *testing.T, l library) {
		if n, err := overtaken(t, l, l.recipe); !errors.Is(err, latchkey.ErrFenced) || n != 2 {
			t.Errorf("got %v and the counter is %d, want ErrFenced and 2", err, n)
		}
	})
	t.Run("control", func(t *testing.T) {
		libraries(t, func(t *testing.T, l library) {
			if n, err := overtaken(t, l, l.byHand); err != nil || n != 1 {
				t.Errorf("got %v and the counter is %d; without a fence one of two should be lost", err, n)
			}
		})
	})
}
