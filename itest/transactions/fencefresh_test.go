//go:build unix

package transactions

import (
	"context"
	"errors"
	"testing"

	"github.com/latchkey-go/latchkey"
)

// What a function has read under a lock stays read, so a holder that was overtaken since must not get a newer token, though
// the lock's own store, one of two masters, still calls it the owner: also if the writing transaction takes the lock again,
// or another one.
func TestOvertakenHolderThatLocksAgainIsFencedOff(t *testing.T) {
	for name, again := range map[string]string{
		"the same key":       "k",
		"another key inside": "j",
	} {
		t.Run(name, func(t *testing.T) {
			databases(t, func(t *testing.T, d database) {
				db := d.open(t, 0)
				m := latchkey.NewTxManager(db, latchkey.Fenced())
				one, two := latchkey.New(newMinter(1000)), latchkey.New(newMinter(2000))
				write := func(by int) func(context.Context, string) error {
					return func(ctx context.Context, id string) error {
						tx, _ := latchkey.TxFrom(ctx)
						_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = ?"), by, id)
						return err
					}
				}
				inner := latchkey.Action(one.WithLock(again, latchkey.Transactional(m)), write(1))
				next := latchkey.Action(two.WithLock("k", latchkey.Transactional(m)), write(5))
				err := latchkey.Action(one.WithLock("k"), func(ctx context.Context, id string) error {
					if n := value(t, db, id); n != 0 {
						t.Errorf("read %d", n)
					}
					if err := next(t.Context(), id); err != nil { // the other master's holder
						t.Error(err)
					}
					return inner(ctx, id) // writes what follows from the value that was read
				})(t.Context(), "a")
				if !errors.Is(err, latchkey.ErrFenced) {
					t.Errorf("got %v, want ErrFenced", err)
				}
				if n := value(t, db, "a"); n != 5 {
					t.Errorf("the account has %d, want 5: what the newer holder wrote is lost", n)
				}
			})
		})
	}
}
