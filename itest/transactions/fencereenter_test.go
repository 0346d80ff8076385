//go:build unix

package transactions

import (
	"context"
	"errors"
	"testing"

	"github.com/latchkey-go/latchkey"
)

// Under a lease that has been used before, a decorated function in a transaction got a new token, above the one of a
// newer holder, and overwrote what that one had committed: what had run under the lease relied on the old token.
func TestReenteredLockIsNotGivenANewerToken(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		m := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced())
		one, two := latchkey.New(newMinter(1000)), latchkey.New(newMinter(2000))
		first, err := one.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer first.Release(t.Context())
		var read int
		if err := m.InTx(first.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			return tx.GetContext(ctx, &read, "SELECT n FROM account WHERE id = 'a'")
		}); err != nil {
			t.Fatal(err)
		}
		count := func(ctx context.Context, locks *latchkey.Locks, to func(ctx context.Context, tx *latchkey.Tx) error) error {
			return latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
				tx, _ := latchkey.TxFrom(ctx)
				return to(ctx, tx)
			})(ctx, "")
		}
		if err := count(t.Context(), two, func(ctx context.Context, tx *latchkey.Tx) error { return increment(ctx, tx, "a") }); err != nil {
			t.Fatal(err)
		}
		err = count(first.Context(), one, func(ctx context.Context, tx *latchkey.Tx) error {
			_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = 'a'"), read)
			return err
		})
		if !errors.Is(err, latchkey.ErrFenced) {
			t.Errorf("got %v, want ErrFenced", err)
		}
		if n := value(t, d.open(t, 1), "a"); n != 1 {
			t.Errorf("counted %d, want 1: what the newer holder committed is lost", n)
		}
	})
}
