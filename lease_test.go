package latchkey_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func acquire(t *testing.T, locks *latchkey.Locks, ctx context.Context, key string, opts ...latchkey.HoldOption) *latchkey.Lease {
	t.Helper()
	lease, err := locks.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t *testing.T, lease *latchkey.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestTheWatchdogKeepsALeaseForAsLongAsItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		locks := latchkey.New(store)
		lease := acquire(t, locks, t.Context(), "k", latchkey.RenewedLease(3*time.Second))
		time.Sleep(time.Minute)
		if err := lease.Context().Err(); err != nil || free(t, store, "k") {
			t.Errorf("after twenty leases: err = %v; want it held", err)
		}
		if n := store.count(latchkey.OpRenew); n < 55 || n > 70 {
			t.Errorf("%d renewals in a minute of 3 s leases, want about sixty", n)
		}
		release(t, lease)
		renewals := store.count(latchkey.OpRenew)
		time.Sleep(time.Minute)
		if n := store.count(latchkey.OpRenew); n != renewals || !free(t, store, "k") {
			t.Errorf("%d renewals after the release", n-renewals)
		}
	})
}

func TestLeaseForEndsTheLeaseAndTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		locks := latchkey.New(store)
		start := time.Now()
		f := latchkey.Func0(locks.WithLock("k", latchkey.LeaseFor(time.Second)), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			if held := time.Since(start); held > time.Second || held < 900*time.Millisecond {
				t.Errorf("the context ended after %v, want just before 1 s", held)
			}
			if err := context.Cause(ctx); !errors.Is(err, latchkey.ErrLeaseLost) || !strings.Contains(err.Error(), "LeaseFor") {
				t.Errorf("cause = %v", err)
			}
			return "result", errInjected
		})
		got, err := f(t.Context())
		if got != "result" || !errors.Is(err, errInjected) || !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("= %q, %v; want the result and both errors", got, err)
		}
		if n := store.count(latchkey.OpRenew); n != 0 {
			t.Errorf("%d renewals", n)
		}
		time.Sleep(10 * time.Second) // what is left to do in the background
	})
}

func TestMaxHoldEndsALeaseThatIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks := latchkey.New(store)
		start := time.Now()
		lease := acquire(t, locks, t.Context(), "k", latchkey.RenewedLease(time.Second), latchkey.MaxHold(10*time.Second))
		<-lease.Context().Done()
		if held := time.Since(start); held != 10*time.Second {
			t.Errorf("ended after %v, want 10 s", held)
		}
		if err := context.Cause(lease.Context()); !errors.Is(err, latchkey.ErrLeaseLost) || !strings.Contains(err.Error(), "MaxHold") {
			t.Errorf("cause = %v", err)
		}
		// A handle that nobody ever releases blocks neither this process nor others.
		next := acquire(t, locks, t.Context(), "k", latchkey.Wait(2*time.Second))
		release(t, next)
		if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("release of the lost lease: %v", err)
		}
	})
}

func TestAForgottenHandleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := latchkey.New(memstore.New())
		_ = acquire(t, locks, t.Context(), "bounded")
		unbounded := acquire(t, locks, t.Context(), "unbounded", latchkey.NoMaxHold())
		time.Sleep(11 * time.Minute)
		release(t, acquire(t, locks, t.Context(), "bounded"))
		if unbounded.Context().Err() != nil {
			t.Error("a lease without a bound ended")
		}
		release(t, unbounded)
	})
}

// The store forgets the lock: restarted empty, failed over, somebody's DEL.
func TestALeaseThatTheStoreForgotIsLostAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		locks := latchkey.New(store)
		f := latchkey.Action0(locks.WithLock("k"), func(ctx context.Context) error {
			store.forget()
			start := time.Now()
			<-ctx.Done()
			if noticed := time.Since(start); noticed > 10*time.Second {
				t.Errorf("noticed after %v, want a third of 30 s", noticed)
			}
			if locks.Held(ctx, "k") {
				t.Error("Held says yes")
			}
			return ctx.Err()
		})
		err := f(t.Context())
		if !errors.Is(err, latchkey.ErrLeaseLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v; want the function's joined with ErrLeaseLost", err)
		}
	})
}

// No renewal gets through: the holder must know before the store gives the lock to somebody else.
func TestTheHolderKnowsOfTheLossBeforeAnybodyElseGetsIn(t *testing.T) {
	for name, fault := range map[string]func(*latchkey.Op) error{
		"renewals fail": func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpRenew {
				return errInjected
			}
			return nil
		},
		"renewals hang": func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpRenew {
				time.Sleep(time.Hour)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultStore()
				store.breakBefore(fault)
				holder, other := latchkey.New(store), latchkey.New(store.Store)
				lease := acquire(t, holder, t.Context(), "k", latchkey.RenewedLease(5*time.Second))
				var knew atomic.Bool
				context.AfterFunc(lease.Context(), func() { knew.Store(true) })
				next := acquire(t, other, t.Context(), "k", latchkey.WaitForever())
				if !knew.Load() {
					t.Error("another holder got in before the first one knew")
				}
				if err := context.Cause(lease.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
					t.Errorf("cause = %v", err)
				}
				release(t, next)
				other.Close()
				time.Sleep(2 * time.Hour) // until what hangs has ended
			})
		})
	}
}

func TestReentrancy(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	second := latchkey.New(store)
	defer second.Close()

	t.Run("same key enters the same lease, last one out releases", func(t *testing.T) {
		outer := acquire(t, locks, t.Context(), "k")
		inner := acquire(t, second, outer.Context(), "k")
		a, errA := outer.Token(t.Context())
		b, errB := inner.Token(t.Context())
		if a != b || errA != nil || errB != nil {
			t.Errorf("tokens %d, %v and %d, %v; want the same", a, errA, b, errB)
		}
		release(t, outer)
		if outer.Context().Err() == nil || inner.Context().Err() == nil {
			t.Error("a context that descends from a released lease's must have ended")
		}
		if free(t, store, "k") {
			t.Error("released while the inner lease still holds it")
		}
		release(t, inner)
		if !free(t, store, "k") {
			t.Error("still held after the last release")
		}
	})
	t.Run("other key is acquired and both are carried", func(t *testing.T) {
		a := acquire(t, locks, t.Context(), "a")
		b := acquire(t, locks, a.Context(), "b")
		if !locks.Held(b.Context(), "a") || !locks.Held(b.Context(), "b") || locks.Held(a.Context(), "b") {
			t.Error("b's context must carry both, a's only a")
		}
		if lease, ok := latchkey.LeaseFrom(b.Context()); !ok || lease != b {
			t.Error("LeaseFrom must find the innermost lease")
		}
		release(t, b)
		if lease, ok := latchkey.LeaseFrom(b.Context()); !ok || lease != a {
			t.Error("LeaseFrom must skip a lease that was released")
		}
		release(t, a)
	})
	t.Run("a lease that was released is not held", func(t *testing.T) {
		old := acquire(t, locks, t.Context(), "k")
		release(t, old)
		if locks.Held(old.Context(), "k") {
			t.Error("Held after the release")
		}
		detached := context.WithoutCancel(old.Context())
		fresh := acquire(t, locks, detached, "k")
		if _, err := locks.Acquire(detached, "k"); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("a dead lease opened the door: %v", err)
		}
		release(t, fresh)
	})
	t.Run("another caller's context does not enter", func(t *testing.T) {
		lease := acquire(t, locks, t.Context(), "k")
		if _, err := locks.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("err = %v, want ErrBusy", err)
		}
		release(t, lease)
	})
	t.Run("the same key in another store is another lock", func(t *testing.T) {
		elsewhere := latchkey.New(memstore.New())
		lease := acquire(t, locks, t.Context(), "k")
		other := acquire(t, elsewhere, lease.Context(), "k")
		release(t, lease)
		if elsewhere.Held(other.Context(), "k") == false {
			t.Error("the other store's lock went with the first")
		}
		release(t, other)
	})
	t.Run("goroutines that share the context share the lock", func(t *testing.T) {
		lease := acquire(t, locks, t.Context(), "k")
		ctx := context.WithoutCancel(lease.Context())
		var ready, wg sync.WaitGroup
		proceed := make(chan struct{})
		for range 20 {
			ready.Add(1)
			wg.Go(func() {
				inner, err := locks.Acquire(ctx, "k")
				ready.Done()
				if err != nil {
					t.Error(err)
					return
				}
				<-proceed
				if !locks.Held(inner.Context(), "k") {
					t.Error("not held though this goroutine has not released it")
				}
				_ = inner.Release(t.Context())
			})
		}
		ready.Wait()
		release(t, lease)
		close(proceed)
		wg.Wait()
		if !free(t, store, "k") {
			t.Error("still held after the last one left")
		}
	})
}

func TestReleaseWorksWithADeadContextAndOnlyOnce(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	ctx, cancel := context.WithCancel(t.Context())
	first := acquire(t, locks, ctx, "k")
	cancel()
	if err := first.Release(ctx); err != nil {
		t.Errorf("release on a cancelled context: %v", err)
	}
	second := acquire(t, locks, t.Context(), "k")
	if err := first.Release(ctx); err != nil {
		t.Errorf("second release: %v", err)
	}
	if free(t, store, "k") {
		t.Error("a second release of the first lease freed the second one")
	}
	release(t, second)
}

func TestTokensGrowAndStandForOneHold(t *testing.T) {
	locks := latchkey.New(memstore.New())
	last := int64(0)
	for i := range 50 {
		opts := []latchkey.HoldOption{latchkey.Wait(time.Second)}
		if i%2 == 0 {
			opts = append(opts, latchkey.MintToken())
		}
		lease := acquire(t, locks, t.Context(), "k", opts...)
		token, err := lease.Token(t.Context())
		if err != nil || token <= last {
			t.Fatalf("token %d after %d, %v", token, last, err)
		}
		if again, _ := lease.Token(t.Context()); again != token {
			t.Fatalf("token changed from %d to %d", token, again)
		}
		last = token
		release(t, lease)
		if _, err := lease.Token(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Fatalf("token of a released lease: %v", err)
		}
	}
}

func TestTokensGrowWhenTheLockIsHandedOverInsideTheProcess(t *testing.T) {
	locks := latchkey.New(memstore.New())
	var mu sync.Mutex
	last, handed := int64(0), 0
	f := latchkey.Action0(locks.WithLock("k", latchkey.WaitForever(), latchkey.MintToken()), func(ctx context.Context) error {
		lease, _ := latchkey.LeaseFrom(ctx)
		token, err := lease.Token(ctx)
		runtime.Gosched() // so that others come and queue, on a machine that is busy with something else too
		mu.Lock()
		defer mu.Unlock()
		if err != nil || token <= last {
			t.Errorf("token %d after %d, %v", token, last, err)
		}
		if token == last+1 {
			handed++
		}
		last = token
		return nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				if err := f(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if handed == 0 {
		t.Error("void: no hand-over inside the process")
	}
}
