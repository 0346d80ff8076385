package latchkey_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Which locks travel, and where to.

// enters reports whether somebody that is called with the text gets into a lock that is held elsewhere.
func enters(t *testing.T, callee *latchkey.Locks, text, key string) bool {
	t.Helper()
	lease, err := callee.Acquire(latchkey.ImportLeases(t.Context(), text), key)
	if err != nil {
		if !errors.Is(err, latchkey.ErrBusy) {
			t.Error(err)
		}
		return false
	}
	_ = lease.Release(t.Context())
	return true
}

// Held said that a lock was held which an open transaction carried, but it did not travel: the call waited for its caller.
func TestALockThatAnOpenTransactionCarriesTravels(t *testing.T) {
	a, b, store := twoServices()
	var carried string
	err := latchkey.InScope(t.Context(), func(ctx context.Context, _ *latchkey.Scope) error {
		outer := ctx
		return latchkey.InScope(ctx, func(ctx context.Context, _ *latchkey.Scope) error {
			for key, in := range map[string]context.Context{"outer": outer, "inner": ctx} {
				lease, err := a.Acquire(in, key)
				if err != nil {
					return err
				}
				if err := lease.Release(t.Context()); err != nil { // the transaction keeps it
					return err
				}
			}
			carried = latchkey.ExportLeases(ctx)
			for _, key := range []string{"outer", "inner"} {
				if !a.Held(ctx, key) || !enters(t, b, carried, key) || enters(t, b, "", key) {
					t.Errorf("%s: held: %v, enters with it: %v, without: %v",
						key, a.Held(ctx, key), enters(t, b, carried, key), enters(t, b, "", key))
				}
			}
			return nil
		}, latchkey.ScopeIsolation(sql.LevelReadCommitted))
	}, latchkey.ScopeIsolation(sql.LevelReadCommitted))
	if err != nil || store.Len() != 0 || carried == "" {
		t.Errorf("%v, %d locks are left", err, store.Len())
	}
}

func TestTheInnermostLocksTravelIfThereAreTooMany(t *testing.T) {
	a, b, store := twoServices()
	const most, all = 32, 40
	ctx := t.Context()
	var leases []*latchkey.Lease
	for i := range all {
		for range 3 { // entering a lock again takes nobody's place
			lease, err := a.Acquire(ctx, strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			leases, ctx = append(leases, lease), lease.Context()
		}
	}
	text := latchkey.ExportLeases(ctx)
	if n := strings.Count(text, ","); n != most-1 {
		t.Errorf("%d locks travel, want %d", n+1, most)
	}
	for i := range all {
		if got, want := enters(t, b, text, strconv.Itoa(i)), i >= all-most; got != want {
			t.Errorf("lock %d of %d travels: %v, want %v", i+1, all, got, want)
		}
	}
	for i := range leases {
		_ = leases[len(leases)-1-i].Release(t.Context())
	}
	if store.Len() != 0 {
		t.Errorf("%d locks are left", store.Len())
	}
}

// A proof is about one lock: that of a key of the same name in another namespace or another store is another one.
func TestALockTravelsOnlyWithinItsStoreAndNamespace(t *testing.T) {
	store, elsewhere := memstore.New(), memstore.New()
	caller, err := latchkey.New(store, latchkey.Namespace("shop")).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Release(t.Context())
	text := latchkey.ExportLeases(caller.Context())
	for name, c := range map[string]struct {
		store     *memstore.Store
		namespace string
		enters    bool
	}{
		"same": {store, "shop", true}, "another namespace": {store, "bank", false}, "another store": {elsewhere, "shop", false},
	} {
		held, err := latchkey.New(c.store, latchkey.Namespace(c.namespace)).Acquire(t.Context(), "k") // so that the callee finds a lock
		if (err == nil) == (name == "same") {
			t.Errorf("%s: %v", name, err)
		}
		if got := enters(t, latchkey.New(c.store, latchkey.Namespace(c.namespace)), text, "k"); got != c.enters {
			t.Errorf("%s: enters: %v", name, got)
		}
		if held != nil {
			_ = held.Release(t.Context())
		}
	}
}

// Work that goes on by itself has a lease that watches the caller's lock, and does not outlive it.
func TestABorrowedLockCanBeDetachedButNotKept(t *testing.T) {
	a, b, _ := twoServices()
	caller, err := a.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	text := latchkey.ExportLeases(caller.Context())
	detached := make(chan *latchkey.Lease, 1)
	callee := latchkey.Action(b.WithLock("#{param}"), func(ctx context.Context, _ string) error {
		lease, err := latchkey.Detach(ctx, time.Minute)
		detached <- lease
		return err
	})
	if err := callee(latchkey.ImportLeases(t.Context(), text), "k"); err != nil {
		t.Fatal(err)
	}
	lease := <-detached
	if lease.Context().Err() != nil {
		t.Errorf("over with the call: %v", context.Cause(lease.Context()))
	}
	_ = caller.Release(t.Context())
	<-lease.Context().Done() // the caller lets go, and within a second the work hears of it
	if cause := context.Cause(lease.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("Release: %v", err)
	}
}
