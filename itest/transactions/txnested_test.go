//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func no(context.Context) bool { return false }

func TestNested(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db)
		t.Run("an inner failure that is swallowed marks the outer rollback-only", func(t *testing.T) {
			before := value(t, db, "a")
			err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
				if err := add(ctx, tx, "a", 1); err != nil {
					return err
				}
				inner := m.InTx(ctx, func(_ context.Context, in *latchkey.Tx) error {
					if in != tx {
						t.Error("the inner one has a transaction of its own")
					}
					return errOwn
				})
				if !errors.Is(inner, errOwn) {
					t.Errorf("the inner one returned %v", inner)
				}
				return nil
			})
			if !errors.Is(err, latchkey.ErrRollbackOnly) || !errors.Is(err, errOwn) {
				t.Errorf("got %v, want ErrRollbackOnly for the inner error", err)
			}
			if got := value(t, db, "a"); got != before {
				t.Errorf("the account went from %d to %d", before, got)
			}
		})
		t.Run("an inner panic that is recovered does so too", func(t *testing.T) {
			err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
				func() {
					defer func() { _ = recover() }()
					_ = m.InTx(ctx, func(context.Context, *latchkey.Tx) error { panic("inner") })
				}()
				return nil
			})
			if !errors.Is(err, latchkey.ErrRollbackOnly) {
				t.Errorf("got %v, want ErrRollbackOnly", err)
			}
		})
		t.Run("savepoint", func(t *testing.T) {
			var j journal
			before := value(t, db, "a")
			err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
				j.watch(ctx, t, "outer", no)
				if err := add(ctx, tx, "a", 1); err != nil {
					return err
				}
				failed := m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
					j.watch(ctx, t, "failed", no)
					return errors.Join(add(ctx, tx, "a", 10), errOwn)
				}, latchkey.Savepoint())
				if !errors.Is(failed, errOwn) {
					t.Errorf("the part returned %v", failed)
				}
				j.addf("outer goes on")
				return m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
					j.watch(ctx, t, "kept", no)
					return add(ctx, tx, "a", 100)
				}, latchkey.Savepoint())
			})
			if err != nil {
				t.Error(err)
			}
			if got := value(t, db, "a") - before; got != 101 {
				t.Errorf("changed by %d, want 101", got)
			}
			j.want(t, "failed rolled back, locked: false", "failed over: rolled back, locked: false", "outer goes on",
				"outer before commit, locked: false", "kept before commit, locked: false",
				"outer committed, locked: false", "kept committed, locked: false",
				"outer over: committed, locked: false", "kept over: committed, locked: false")
		})
		t.Run("a part that joined a savepoint fails it alone", func(t *testing.T) {
			err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
				part := m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error {
					_ = m.InTx(ctx, func(context.Context, *latchkey.Tx) error { return errOwn })
					return nil
				}, latchkey.Savepoint())
				if !errors.Is(part, latchkey.ErrRollbackOnly) {
					t.Errorf("the savepoint returned %v, want ErrRollbackOnly", part)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		t.Run("new", func(t *testing.T) {
			var j journal
			before := value(t, db, "b")
			err := m.InTx(t.Context(), func(ctx context.Context, outer *latchkey.Tx) error {
				j.watch(ctx, t, "outer", no)
				if err := m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
					if tx == outer {
						t.Error("no transaction of its own")
					}
					j.watch(ctx, t, "new", no)
					return add(ctx, tx, "b", 1)
				}, latchkey.NewTransaction()); err != nil {
					return err
				}
				if now, ok := latchkey.TxFrom(ctx); !ok || now != outer {
					t.Error("the outer transaction is not the current one again")
				}
				return errOwn
			})
			if !errors.Is(err, errOwn) {
				t.Errorf("got %v", err)
			}
			if got := value(t, db, "b") - before; got != 1 {
				t.Errorf("the new transaction changed %d, want 1: it is committed whatever becomes of the outer", got)
			}
			j.want(t, "new before commit, locked: false", "new committed, locked: false", "new over: committed, locked: false",
				"outer rolled back, locked: false", "outer over: rolled back, locked: false")
		})
		t.Run("options that the open transaction does not have", func(t *testing.T) {
			err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
				return m.InTx(ctx, func(context.Context, *latchkey.Tx) error { return nil }, latchkey.Isolation(sql.LevelSerializable))
			})
			if err == nil || !strings.Contains(err.Error(), "NewTransaction()") {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestLockTakenInsideAnOpenTransactionIsCarried(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for _, fenced := range []bool{false, true} {
			t.Run(fmt.Sprintf("fenced %v", fenced), func(t *testing.T) {
				var opts []latchkey.TxManagerOption
				if fenced {
					opts = append(opts, latchkey.Fenced())
				}
				db := d.open(t, 0)
				m := latchkey.NewTxManager(db, opts...)
				locks := latchkey.New(memstore.New())
				work := latchkey.Action(locks.WithLock("k:#{param}"), func(ctx context.Context, id string) error {
					tx, _ := latchkey.TxFrom(ctx)
					return add(ctx, tx, id, 1)
				})
				busy := func(context.Context) bool {
					le, err := locks.Acquire(context.Background(), "k:a")
					if err == nil {
						_ = le.Release(context.Background())
					}
					return errors.Is(err, latchkey.ErrBusy)
				}
				for _, end := range []error{nil, errOwn} {
					var j journal
					err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
						j.watch(ctx, t, "tx", busy)
						for range 2 { // the second time the transaction has the lock already
							if err := work(ctx, "a"); err != nil {
								return err
							}
							if !locks.Held(ctx, "k:a") || !busy(ctx) {
								t.Error("the lock was let go before the transaction's end")
							}
						}
						return end
					})
					if !errors.Is(err, end) || end == nil && err != nil {
						t.Errorf("got %v, want %v", err, end)
					}
					if busy(t.Context()) {
						t.Error("still locked after the end")
					}
					if end == nil {
						j.want(t, "tx before commit, locked: true", "tx committed, locked: true", "tx over: committed, locked: true")
					} else {
						j.want(t, "tx rolled back, locked: true", "tx over: rolled back, locked: true")
					}
				}
			})
		}
	})
}

func TestLossOfACarriedLockEndsTheTransaction(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db)
		locks := latchkey.New(memstore.New(), latchkey.LeaseFor(50*time.Millisecond))
		before := value(t, db, "a")
		lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			if err := lock(ctx, "a"); err != nil {
				return err
			}
			if err := add(ctx, tx, "a", 1); err != nil {
				return err
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, latchkey.ErrLeaseLost) {
				t.Errorf("the context ended with %v", cause)
			}
			return nil
		})
		if !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
		if got := value(t, db, "a"); got != before {
			t.Error("committed without its lock")
		}
	})
}

func TestNewTransactionUnderTheSameFenceIsAnErrorNotADeadlock(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		locks := latchkey.New(memstore.New())
		start := time.Now()
		outer := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
			if d.kind != "sqlite" { // which has one writer at a time
				if err := m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
					return add(ctx, tx, "b", 1)
				}, latchkey.NewTransaction(), latchkey.WithoutFence()); err != nil {
					t.Errorf("WithoutFence: %v", err)
				}
			}
			return m.InTx(ctx, func(context.Context, *latchkey.Tx) error { return nil }, latchkey.NewTransaction())
		})
		if err := outer(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "WithoutFence()") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A savepoint that is rolled back takes its fence rows along; the locks are kept, so the rows are raised again.
func TestSavepointRolledBackKeepsLocksFenced(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			db := d.open(t, 0)
			m := latchkey.NewTxManager(db, latchkey.Fenced(), latchkey.AllowStaleSnapshot())
			locks := latchkey.New(memstore.New())
			lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
			err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
				_ = m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error {
					return errors.Join(lock(ctx, "a"), errOwn)
				}, latchkey.Savepoint())
				if !locks.Held(ctx, "k:a") {
					t.Error("the lock was let go with the savepoint")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var token int64
			if err := db.Get(&token, "SELECT token FROM latchkey_fence"); err != nil || token == 0 {
				t.Errorf("the fence row has token %d (%v)", token, err)
			}
		})
	}
}
