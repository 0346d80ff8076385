package latchkey_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// twoServices are two processes with the same store: a calls b while it holds a lock.
func twoServices(opts ...latchkey.LocksOption) (a, b *latchkey.Locks, store *memstore.Store) {
	store = memstore.New()
	return latchkey.New(store), latchkey.New(store, opts...), store
}

func TestACalleeEntersTheLockThatItsCallerHolds(t *testing.T) {
	a, b, store := twoServices()
	for _, travels := range []bool{true, false} { // false: the control
		ran := false
		callee := latchkey.Action(b.WithLock("order:#{param}"), func(ctx context.Context, _ int) error {
			ran = true
			if !b.Held(ctx, "order:42") {
				t.Error("not held in the callee")
			}
			return nil
		})
		caller := latchkey.Action(a.WithLock("order:#{param}"), func(ctx context.Context, id int) error {
			text := latchkey.ExportLeases(ctx)
			if strings.Contains(text, "42") && strings.Contains(text, "order") {
				t.Errorf("%q has the key in it", text)
			}
			arrived := t.Context() // nothing else crosses the wire
			if travels {
				arrived = latchkey.ImportLeases(arrived, text)
			}
			if err := callee(arrived, id); (err == nil) != travels || !travels && !errors.Is(err, latchkey.ErrBusy) {
				t.Errorf("travels %v: %v", travels, err)
			}
			if !a.Held(ctx, "order:42") || store.Len() != 1 {
				t.Error("the callee took the caller's lock away")
			}
			return nil
		})
		if err := caller(t.Context(), 42); err != nil || ran != travels || store.Len() != 0 {
			t.Errorf("travels %v: %v, ran: %v, %d locks are left", travels, err, ran, store.Len())
		}
	}
}

func TestALockTravelsOnAndWithOthers(t *testing.T) {
	a, b, store := twoServices()
	c := latchkey.New(store)
	items, err := a.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	both, err := a.Acquire(items.Context(), "y")
	if err != nil {
		t.Fatal(err)
	}
	inB := latchkey.Action(b.WithLock("#{param}"), func(ctx context.Context, _ []string) error {
		arrived := latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(ctx))
		inC := latchkey.Action(c.WithLock("#{param}"), func(context.Context, string) error { return nil })
		return errors.Join(inC(arrived, "x"), inC(arrived, "y"), inC(arrived, "z"))
	})
	arrived := latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(both.Context()))
	// z is nobody's: b takes it, and it travels on together with the two that came.
	if err := inB(arrived, []string{"z", "y", "x"}); err != nil {
		t.Error(err)
	}
	_ = both.Release(t.Context())
	_ = items.Release(t.Context())
	if store.Len() != 0 {
		t.Errorf("%d locks are left", store.Len())
	}
}

func TestACalleeIsToldWhenItsCallerReleasesOrLosesTheLock(t *testing.T) {
	for _, how := range []string{"released", "crashed", "kept"} { // kept: the control
		synctest.Test(t, func(t *testing.T) {
			store := &forgetful{memstore.New(), map[string]string{}}
			a, b := latchkey.New(store), latchkey.New(store)
			caller, err := a.Acquire(t.Context(), "k", latchkey.RenewedLease(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			lease, err := b.Acquire(latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(caller.Context())), "k")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second) // it is re-verified for as long as the caller renews it
			if lease.Context().Err() != nil {
				t.Fatal("lost while the caller held it: ", context.Cause(lease.Context()))
			}
			switch how {
			case "released":
				_ = caller.Release(t.Context())
			case "crashed": // the store forgets it
				store.forget("latchkey:k")
			}
			time.Sleep(1100 * time.Millisecond)
			cause := context.Cause(lease.Context())
			if lost := errors.Is(cause, latchkey.ErrLeaseLost); lost != (how != "kept") {
				t.Errorf("%s: a second later the cause is %v", how, cause)
			}
			if err := lease.Release(t.Context()); errors.Is(err, latchkey.ErrLeaseLost) != (how != "kept") {
				t.Errorf("%s: Release: %v", how, err)
			}
			_ = caller.Release(t.Context())
			a.Close()
			b.Close()
		})
	}
}

// forgetful is a store that can lose a lock behind its holder's back.
type forgetful struct {
	*memstore.Store
	owners map[string]string
}

func (s *forgetful) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpAcquire {
			s.owners[op.Key] = op.Owner
		}
	}
	s.Store.Do(ctx, ops)
}

func (s *forgetful) forget(key string) {
	s.Store.Do(context.Background(), []*latchkey.Op{{Kind: latchkey.OpRelease, Key: key, Owner: s.owners[key]}})
}

func TestAProofIsWorthlessOnceTheLockIsReleased(t *testing.T) {
	a, b, _ := twoServices()
	first, err := a.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	// The next holder is in the same process and gets the lock by hand-over, if nothing keeps it from that.
	waiting := make(chan *latchkey.Lease)
	go func() {
		lease, _ := a.Acquire(context.Background(), "k", latchkey.WaitForever())
		waiting <- lease
	}()
	text := latchkey.ExportLeases(first.Context())
	_ = first.Release(t.Context())
	second := <-waiting
	if _, err := b.Acquire(latchkey.ImportLeases(t.Context(), text), "k"); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("the old proof opened the next holder's lock: %v", err)
	}
	if latchkey.ExportLeases(first.Context()) != "" {
		t.Error("a lease that was released is exported")
	}
	if fresh := latchkey.ExportLeases(second.Context()); fresh == text || fresh == "" {
		t.Errorf("the next holder's proof is %q, the old one %q", fresh, text)
	}
	_ = second.Release(t.Context())
	if lease, err := b.Acquire(latchkey.ImportLeases(t.Context(), text), "k"); err != nil {
		t.Errorf("free: %v", err)
	} else {
		_ = lease.Release(t.Context())
	}
}

func TestWhatIsNoProofOpensNothing(t *testing.T) {
	a, b, _ := twoServices()
	lease, err := a.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	good := latchkey.ExportLeases(lease.Context())
	id, proof, _ := strings.Cut(good, ".")
	for name, text := range map[string]string{
		"empty": "", "junk": "junk", "half": id, "of another key": strings.Repeat("0", len(id)) + "." + proof,
		"guessed": id + "." + strings.Repeat("0", len(proof)), "cut": good[:len(good)-1], "long": strings.Repeat(good+",", 100),
		"the owner's name": id + ".lk:AAAAAAAAAAAAAAAAAAAAAA",
	} {
		if _, err := b.Acquire(latchkey.ImportLeases(t.Context(), text), "k"); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := strings.Repeat(id+"."+strings.Repeat("0", len(proof))+",", 3) + good
	entered, err := b.Acquire(latchkey.ImportLeases(t.Context(), many), "k")
	if err != nil {
		t.Fatalf("a good one among others: %v", err)
	}
	if err := entered.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestABorrowedLockGivesNoTokens(t *testing.T) {
	a, b, _ := twoServices()
	lease, err := a.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	arrived := latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(lease.Context()))
	if _, err := b.Acquire(arrived, "k", latchkey.MintToken()); err == nil || !strings.Contains(err.Error(), "stay with the caller") {
		t.Errorf("MintToken: %v", err)
	}
	entered, err := b.Acquire(arrived, "k")
	if err != nil {
		t.Fatal(err)
	}
	if token, err := entered.Token(t.Context()); err == nil {
		t.Errorf("token %d", token)
	}
	_ = entered.Release(t.Context())
}

func TestABorrowedLockIsBoundedLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := twoServices()
		lease, _ := a.Acquire(t.Context(), "k")
		arrived := latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(lease.Context()))
		for _, bound := range []latchkey.HoldOption{latchkey.LeaseFor(5 * time.Second), latchkey.MaxHold(5 * time.Second)} {
			entered, err := b.Acquire(arrived, "k", bound)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
			if entered.Context().Err() != nil {
				t.Error("lost before its bound")
			}
			time.Sleep(1100 * time.Millisecond)
			if !errors.Is(context.Cause(entered.Context()), latchkey.ErrLeaseLost) {
				t.Error("not lost at its bound")
			}
			_ = entered.Release(t.Context())
		}
		_ = lease.Release(t.Context())
		a.Close()
		b.Close()
	})
}

// proofs counts how often a store is asked for a proof, and says no from the thousandth time on.
type proofs struct {
	*memstore.Store
	asked atomic.Int64
}

func (s *proofs) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpProve && s.asked.Add(1) > 1000 {
			op.Key = "another"
		}
	}
	s.Store.Do(ctx, ops)
}

// The shorter the rest of a caller's lease that nobody renews, the more often the store was asked about it, without end.
func TestTheLastMomentsOfACallersLeaseAreNotAskedAboutWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &proofs{Store: memstore.New()}
		a, b := latchkey.New(store), latchkey.New(store)
		caller, err := a.Acquire(t.Context(), "k", latchkey.LeaseFor(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		entered, err := b.Acquire(latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(caller.Context())), "k")
		if err != nil {
			t.Fatal(err)
		}
		<-entered.Context().Done()
		if cause := context.Cause(entered.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		if n := store.asked.Load(); n < 5 || n > 100 {
			t.Errorf("asked %d times", n)
		}
		_, _ = entered.Release(t.Context()), caller.Release(t.Context())
		a.Close()
		b.Close()
	})
}
