//go:build unix

package transactions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// A callee that had the database mint a token for the lock that its caller holds fenced the caller off under its own lock,
// and waited for the fence of the transaction from which it was called.
func TestABorrowedLockIsNotFencedByTheDatabaseEither(t *testing.T) {
	for _, mode := range []string{"database", "store", "control"} {
		t.Run(mode, func(t *testing.T) {
			databases(t, func(t *testing.T, d database) {
				var opts []latchkey.FenceOption
				if mode == "database" {
					opts = append(opts, latchkey.DatabaseTokens())
				}
				callers := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced(opts...))
				callees := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced(append(opts, latchkey.FenceWait(2*time.Second))...))
				store := memstore.New()
				a, b := latchkey.New(store), latchkey.New(store)
				lease, err := a.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				ran := 0
				callee := func(arrived context.Context, opts ...latchkey.TxOption) error {
					fn := func(context.Context, *latchkey.Tx) error { ran++; return nil }
					entered, err := b.Acquire(arrived, "k")
					if err != nil {
						return err
					}
					defer entered.Release(t.Context())
					return callees.InTx(entered.Context(), fn, opts...)
				}
				var unfenced []latchkey.TxOption
				if mode == "control" { // writes nothing that the lock guards
					unfenced = append(unfenced, latchkey.WithoutFence())
				}
				for range 2 {
					err := callers.InTx(lease.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
						arrived := latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(ctx))
						err := callee(arrived, unfenced...)
						if mode == "control" && err != nil {
							t.Errorf("without a fence: %v", err)
						}
						var busy *latchkey.BusyError // what waiting for the caller's own fence ends in
						if mode != "control" && (err == nil || errors.As(err, &busy) || !strings.Contains(err.Error(), "stay with the caller")) {
							t.Errorf("the callee: %v", err)
						}
						return add(ctx, tx, "a", 1)
					})
					if err != nil {
						t.Errorf("the caller: %v", err)
					}
					err = callee(latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(lease.Context())), unfenced...)
					if (err == nil) != (mode == "control") {
						t.Errorf("the callee, outside of its caller's transactions: %v", err)
					}
				}
				if want := map[string]int{"control": 4}[mode]; ran != want {
					t.Errorf("%d of the callee's transactions ran, want %d", ran, want)
				}
				if n := value(t, d.open(t, 1), "a"); n != 2 {
					t.Errorf("the caller counted %d, want 2", n)
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

// A proof counts for 3 s until it is checked again, so that a CommitTimeout above that could never be covered and every call
// was rolled back.
func TestACommitTimeoutAboveWhatAProofCountsFor(t *testing.T) {
	d := newDatabase(t, "sqlite")
	for name, c := range map[string]struct {
		callers latchkey.HoldOption
		passes  time.Duration // in the callee's transaction, with the caller at work
		ends    bool          // the caller's lease is too short for COMMIT by then
	}{
		"renewed":               {latchkey.RenewedLease(30 * time.Second), 0, false},
		"renewed, but short":    {latchkey.RenewedLease(2 * time.Second), 0, false},
		"fixed":                 {latchkey.LeaseFor(30 * time.Second), 0, false},
		"fixed, and used up":    {latchkey.LeaseFor(2 * time.Second), 1500 * time.Millisecond, true},
		"renewed while it runs": {latchkey.RenewedLease(2 * time.Second), 2500 * time.Millisecond, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := latchkey.NewTxManager(d.open(t, 1), latchkey.CommitTimeout(5*time.Second))
			store := memstore.New()
			a, b := latchkey.New(store), latchkey.New(store)
			defer a.Close()
			defer b.Close()
			lease, err := a.Acquire(t.Context(), "k", c.callers)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release(t.Context())
			entered, err := b.Acquire(latchkey.ImportLeases(t.Context(), latchkey.ExportLeases(lease.Context())), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer entered.Release(t.Context())
			err = m.InTx(entered.Context(), func(context.Context, *latchkey.Tx) error {
				time.Sleep(c.passes)
				return nil
			})
			if errors.Is(err, latchkey.ErrLeaseLost) != c.ends || err != nil && !c.ends {
				t.Errorf("%s: %v; want a loss: %v", name, err, c.ends)
			}
			time.Sleep(time.Second) // goroutines that end transactions go when they have nothing to do
		})
	}
}
