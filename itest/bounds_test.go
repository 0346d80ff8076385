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

func TestFixedLeaseIsNeverRenewedAndEndsItsContext(t *testing.T) {
	t.Parallel()
	const lease = 400 * time.Millisecond
	for _, fixed := range []bool{true, false} {
		name, length := "fixed", latchkey.LeaseFor(lease)
		if !fixed {
			name, length = "control, renewed", latchkey.RenewedLease(lease)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const key = "bounded"
			srv := testenv.Redis(t)
			m := watch(t, srv)
			s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
			begin := time.Now()
			held := s.take(t, key, length)
			first := look(t, srv, key)
			if fixed {
				hear(t, "the context ends", held.Context().Done())
				if took := time.Since(begin); took > lease+5*time.Second {
					t.Errorf("the context ended after %v", took)
				}
				if cause := context.Cause(held.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
					t.Errorf("the context ended because of %v", cause)
				}
				release(t, other.take(t, key))
				if err := held.Release(context.Background()); !errors.Is(err, latchkey.ErrLeaseLost) {
					t.Errorf("a lease that has ended was released: %v", err)
				}
			} else {
				eventually(t, "it is renewed past its first end", func() bool {
					return look(t, srv, key).end().After(first.end().Add(lease))
				})
				release(t, held)
			}
			if n := len(m.between(0, m.mark(t), renews)); n > 0 == fixed {
				t.Errorf("the server was asked for %d renewals", n)
			}
		})
	}
}

func TestMaxHoldEndsARenewedLeaseAndFreesItsKey(t *testing.T) {
	t.Parallel()
	const lease, bound, key = 300 * time.Millisecond, time.Second, "bounded"
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			holds, wants := besides(t, srv, place)
			begin := time.Now()
			// The handle is forgotten: nobody releases it, nobody listens to its context.
			held, err := holds.Acquire(context.Background(), key, latchkey.RenewedLease(lease), latchkey.MaxHold(bound))
			if err != nil {
				t.Fatal(err)
			}
			first := look(t, srv, key)
			next := wants.take(t, key)
			took, now := time.Since(begin), look(t, srv, key)
			t.Logf("the next one got in after %v", took)
			if now.owner == first.owner || took < bound {
				t.Errorf("the next one got in after %v; the bound is %v", took, bound)
			}
			if took > bound+lease+5*time.Second {
				t.Errorf("the next one got in only after %v; the bound is %v, the lease %v", took, bound, lease)
			}
			if holds.events.count(latchkey.EventRenewed) < 2 {
				t.Error("the lease was not renewed: nothing is shown")
			}
			ctx := held.Context()
			if ctx.Err() == nil || !errors.Is(context.Cause(ctx), latchkey.ErrLeaseLost) {
				t.Errorf("the forgotten handle's context says %v", context.Cause(ctx))
			}
			// Remembered at last: it must not let go of what the next one holds.
			if err := held.Release(context.Background()); !errors.Is(err, latchkey.ErrLeaseLost) {
				t.Errorf("the forgotten handle was released: %v", err)
			}
			if owner := look(t, srv, key).owner; owner != now.owner {
				t.Errorf("the forgotten handle has freed the lock of the next one; %q has it now", owner)
			}
			release(t, next)
			nothingLeft(t, srv)
		})
	}
}

func TestFunctionThatOverstaysMaxHoldIsToldAndKeepsItsResult(t *testing.T) {
	t.Parallel()
	const lease, bound, key = 300 * time.Millisecond, 500 * time.Millisecond, "overstayed"
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	lock := s.WithLock(key, latchkey.RenewedLease(lease), latchkey.MaxHold(bound))
	hold := latchkey.Func0(lock, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "result", errors.New("its own")
	})
	result, err := hold(context.Background())
	if result != "result" || !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("returned %q, %v", result, err)
	}
	nothingLeft(t, srv)
}
