//go:build unix

package transactions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// A transaction that is over holds no fence row any more, but a new one begun in its hooks was refused as if it did. The control
// is a new one inside the open transaction, which is refused with good reason: it would wait for itself.
func TestFenceOfATransactionThatIsOverRefusesNobodyInItsHooks(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 1) // the connection is back in the pool when hooks run
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		locks := latchkey.New(memstore.New())
		defer locks.Close()
		for _, end := range []error{nil, errOwn} {
			before, ran := value(t, db, "a"), 0
			inHook := func(ctx context.Context) error {
				ran++
				if err := m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error { return add(ctx, tx, "a", 1) }); err != nil {
					t.Errorf("in a hook, the function having returned %v: %v", end, err)
				}
				return nil
			}
			var open error
			err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
				open = m.InTx(ctx, func(context.Context, *latchkey.Tx) error { return nil }, latchkey.NewTransaction())
				return errors.Join(latchkey.AfterCommit(ctx, inHook), latchkey.AfterRollback(ctx, inHook),
					latchkey.AfterCompletion(ctx, func(ctx context.Context, _ latchkey.Outcome) { _ = inHook(ctx) }), end)
			})(t.Context(), "")
			if !errors.Is(err, end) || end == nil && err != nil {
				t.Errorf("got %v, want %v", err, end)
			}
			if ran != 2 || value(t, db, "a") != before+2 {
				t.Errorf("%d hooks ran and changed the account by %d, want 2", ran, value(t, db, "a")-before)
			}
			if open == nil || !strings.Contains(open.Error(), "holds the fence") {
				t.Errorf("control: inside the open transaction: %v, want a refusal", open)
			}
		}
	})
}

// Work that is detached from a function in a transaction was refused a transaction of its own, or joined the function's, which
// ends with the function.
func TestDetachedWorkHasATransactionOfItsOwn(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		locks := latchkey.New(memstore.New())
		defer locks.Close()
		work := func(lease *latchkey.Lease) error {
			defer lease.Release(context.WithoutCancel(t.Context()))
			if _, ok := latchkey.TxFrom(lease.Context()); ok {
				t.Error("the work finds the function's transaction")
			}
			return m.InTx(lease.Context(), func(ctx context.Context, tx *latchkey.Tx) error { return add(ctx, tx, "a", 10) })
		}
		for name, early := range map[string]bool{"while the function is in its own": true, "afterwards": false} {
			t.Run(name, func(t *testing.T) {
				before := value(t, db, "a")
				var lease *latchkey.Lease
				done := make(chan error, 1)
				err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) (err error) {
					tx, _ := latchkey.TxFrom(ctx)
					if lease, err = latchkey.Detach(ctx, time.Minute); err != nil {
						return err
					}
					if early {
						go func() { done <- work(lease) }()
						if d.kind != "sqlite" {
							d.awaitBlocked(t) // the work waits for the fence of the function's
						}
					}
					return errors.Join(add(ctx, tx, "a", 1), errOwn)
				})(t.Context(), "")
				if !errors.Is(err, errOwn) {
					t.Errorf("the function returned %v", err)
				}
				if !early {
					go func() { done <- work(lease) }()
				}
				if err := <-done; err != nil {
					t.Errorf("the work: %v", err)
				}
				if n := value(t, db, "a") - before; n != 10 {
					t.Errorf("changed by %d, want 10: the work's alone, the function's was rolled back", n)
				}
			})
		}
	})
}

// A decorated function that joined a transaction without fences ran unfenced, and a holder that had been overtaken
// committed. The control says that it wants no fence, and overwrites.
func TestFencedFunctionDoesNotJoinATransactionWithoutFences(t *testing.T) {
	for name, opts := range map[string][]latchkey.TxOption{
		"fenced": nil, "control: not fenced": {latchkey.WithoutFence()}, "in one of its own": {latchkey.NewTransaction()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"postgres", "mariadb"} { // SQLite has one writer at a time
				t.Run(kind, func(t *testing.T) {
					d := newDatabase(t, kind)
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
					stale := latchkey.Action(one.WithLock("k", latchkey.Transactional(m, opts...)), write(1))
					next := latchkey.Action(two.WithLock("k", latchkey.Transactional(m)), write(5))
					err := latchkey.Action(one.WithLock("k"), func(ctx context.Context, id string) error {
						_ = value(t, db, id)
						if err := next(t.Context(), id); err != nil { // the other master's holder
							t.Error(err)
						}
						return m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error { return stale(ctx, id) }, latchkey.WithoutFence())
					})(t.Context(), "a")
					n := value(t, db, "a")
					switch {
					case name == "fenced" && (n != 5 || err == nil || !strings.Contains(err.Error(), "WithoutFence()")):
						t.Errorf("got %v and the account has %d; want a refusal that says what to do, and 5", err, n)
					case strings.HasPrefix(name, "control") && (n != 1 || err != nil):
						t.Errorf("got %v and the account has %d; without a fence what the newer holder wrote should be lost", err, n)
					case name == "in one of its own" && (n != 5 || !errors.Is(err, latchkey.ErrFenced)):
						t.Errorf("got %v and the account has %d; want ErrFenced and 5", err, n)
					}
				})
			}
		})
	}
}
