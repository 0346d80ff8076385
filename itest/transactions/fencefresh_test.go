//go:build unix

package transactions

import (
	"context"
	"errors"
	"sync/atomic"
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

// Whether a lock may get a newer token is decided for each lock, and for as many as there are: of a list of which all rows
// were above the store, only three got one.
func TestNewerTokenIsDecidedLockByLock(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f"}
	databases(t, func(t *testing.T, d database) {
		m := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced())
		master := func(first int64) *latchkey.Locks {
			locks := latchkey.New(newMinter(first))
			t.Cleanup(locks.Close)
			return locks
		}
		all := func(ctx context.Context, locks *latchkey.Locks) error {
			return latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)),
				func(context.Context, []string) error { return nil })(ctx, keys)
		}
		if err := all(t.Context(), master(1<<40)); err != nil {
			t.Fatal(err)
		}
		if err := all(t.Context(), master(1000)); err != nil {
			t.Errorf("all rows are above the store: %v", err)
		}
		if err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error { return all(ctx, master(1000)) }); err != nil {
			t.Errorf("the same inside a transaction: %v", err)
		}
		for used, fenced := range map[string]bool{"a": true, "f": true, "another one": false} {
			overtaken := master(1000)
			err := latchkey.Action(overtaken.WithLock("k:#{param}", latchkey.MintToken()), func(ctx context.Context, _ string) error {
				if err := all(t.Context(), master(1<<40)); err != nil { // the other master's holders
					t.Error(err)
				}
				return all(ctx, overtaken)
			})(t.Context(), used)
			if errors.Is(err, latchkey.ErrFenced) != fenced || !fenced && err != nil {
				t.Errorf("%q was used before: %v; want fenced off: %v", used, err, fenced)
			}
		}
	})
}

// forgetful is a store that may give a lock away at the moment when it is asked for a newer token.
type forgetful struct {
	*minter

	forgets bool
	asked   atomic.Int64
}

func (f *forgetful) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpToken && op.Above > 0 {
			f.asked.Add(1)
			if f.forgets {
				f.Store.Do(ctx, []*latchkey.Op{{Kind: latchkey.OpRelease, Key: op.Key, Owner: op.Owner}})
			}
		}
	}
	f.minter.Do(ctx, ops)
}

// A newer token is only for the owner. A holder whose lock the store has given away, before the first statement under it,
// gets none. The control still owns the lock.
func TestNewerTokenIsRefusedToWhoeverIsNotTheOwner(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		for i, forgets := range []bool{true, false} {
			if err := m.InTx(hold(t, newMinter(1<<(40+i))).Context(), func(context.Context, *latchkey.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for inside, run := range map[bool]func(func(context.Context) error) error{
				false: func(f func(context.Context) error) error { return f(t.Context()) },
				true: func(f func(context.Context) error) error {
					return m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error { return f(ctx) })
				},
			} {
				store := &forgetful{minter: newMinter(10), forgets: forgets}
				locks := latchkey.New(store)
				before := value(t, db, "a")
				err := run(func(ctx context.Context) error {
					return latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
						tx, _ := latchkey.TxFrom(ctx)
						return add(ctx, tx, id, 1)
					})(ctx, "a")
				})
				locks.Close()
				ran := value(t, db, "a") != before
				if errors.Is(err, latchkey.ErrLeaseLost) != forgets || ran == forgets || !forgets && err != nil || store.asked.Load() != 1 {
					t.Errorf("given away %v, inside a transaction %v: %v, committed: %v, asked %d times",
						forgets, inside, err, ran, store.asked.Load())
				}
			}
		}
	})
}
