package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestWorkThatIsDetachedKeepsTheLockWhenTheFunctionHasReturned(t *testing.T) {
	for _, detached := range []bool{true, false} { // false: the control
		synctest.Test(t, func(t *testing.T) {
			locks := latchkey.New(memstore.New(), latchkey.RenewedLease(3*time.Second))
			defer locks.Close()
			done := make(chan struct{})
			start := latchkey.Action(locks.WithLock("order:#{param}"), func(ctx context.Context, _ int) error {
				if !detached {
					go func() { defer close(done); time.Sleep(10 * time.Second) }()
					return nil
				}
				lease, err := latchkey.Detach(ctx, time.Minute)
				if err != nil {
					return err
				}
				go func() {
					defer close(done)
					defer lease.Release(context.Background())
					time.Sleep(10 * time.Second) // several leases long
					if ctx := lease.Context(); ctx.Err() != nil || !locks.Held(ctx, "order:1") {
						t.Errorf("the work lost its lock: %v", context.Cause(ctx))
					}
				}()
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			if err := start(ctx, 1); err != nil {
				t.Fatal(err)
			}
			cancel() // the request is over
			_, err := locks.Acquire(t.Context(), "order:1")
			if busy := errors.Is(err, latchkey.ErrBusy); busy != detached {
				t.Errorf("while the work goes on, detached %v: %v", detached, err)
			}
			<-done
			synctest.Wait()
			if detached {
				lease, err := locks.Acquire(t.Context(), "order:1")
				if err != nil {
					t.Fatalf("after the work: %v", err)
				}
				_ = lease.Release(t.Context())
			}
		})
	}
}

func TestADetachedLeaseThatIsForgottenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks := latchkey.New(store)
		outer, err := locks.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		lease, err := latchkey.Detach(outer.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_ = outer.Release(t.Context())
		time.Sleep(time.Minute - time.Second)
		if !locks.Held(lease.Context(), "a") || store.Len() != 1 {
			t.Error("not held before its bound")
		}
		<-lease.Context().Done()
		synctest.Wait()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) || store.Len() != 0 {
			t.Errorf("cause %v, %d locks", cause, store.Len())
		}
		if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("Release: %v", err)
		}
	})
}

func TestDetachTakesEveryKeyAndOutlivesTheFirstRelease(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	var lease *latchkey.Lease
	both := latchkey.Action(locks.WithLock("sku:#{param}"), func(ctx context.Context, _ []string) (err error) {
		lease, err = latchkey.Detach(ctx, time.Minute)
		return err
	})
	if err := both(t.Context(), []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	if keys := lease.Keys(); len(keys) != 2 || store.Len() != 2 {
		t.Errorf("%v, %d locks", keys, store.Len())
	}
	again := 0
	inner := latchkey.Action(locks.WithLock("sku:#{param}"), func(context.Context, string) error { again++; return nil })
	if err := inner(lease.Context(), "a"); err != nil || again != 1 {
		t.Errorf("re-entering: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil || store.Len() != 0 {
		t.Errorf("%v, %d locks", err, store.Len())
	}
}

func TestDetachWithoutALease(t *testing.T) {
	locks := latchkey.New(memstore.New())
	lease, err := locks.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := latchkey.Detach(lease.Context(), 0); err == nil || errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("no bound: %v", err)
	}
	_ = lease.Release(t.Context())
	for name, ctx := range map[string]context.Context{"none": t.Context(), "released": lease.Context()} {
		if _, err := latchkey.Detach(ctx, time.Minute); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The confirmation is sent by a goroutine that outlives the function; the order stays locked until it is.
func ExampleDetach() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	var sent sync.WaitGroup
	pay := latchkey.Action(locks.WithLock("order:#{param}", latchkey.Wait(time.Second)), func(ctx context.Context, id int) error {
		lease, err := latchkey.Detach(ctx, time.Minute)
		if err != nil {
			return err
		}
		fmt.Println("paid", id)
		sent.Go(func() {
			defer lease.Release(context.Background())
			time.Sleep(10 * time.Millisecond)
			fmt.Println("confirmed", id)
		})
		return nil
	})
	_ = pay(context.Background(), 1)
	_ = pay(context.Background(), 1) // waits for the confirmation
	sent.Wait()
	// Output:
	// paid 1
	// confirmed 1
	// paid 1
	// confirmed 1
}
