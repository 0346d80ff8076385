//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
)

// The fence comes before everything that the function does. As the last statement it would still lose an update: the
// newer holder reads what the older one has not committed yet, and raises the row after that one is through.
func TestFenceIsRaisedBeforeTheFunctionReads(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb"} {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, control with the fence last: %v", kind, last), func(t *testing.T) {
				d := newDatabase(t, kind)
				db := d.open(t, 0)
				dialect := map[string]latchkey.Dialect{"postgres": latchkey.PostgreSQL, "mariadb": latchkey.MySQL}[kind]
				if kind == "mariadb" { // which makes a missing row outside the transaction, so that nobody waits for a gap
					if err := latchkey.NewTxManager(db, latchkey.Fenced()).InTx(hold(t, newMinter(1)).Context(),
						func(context.Context, *latchkey.Tx) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				// count reads, runs between, and writes one more.
				count := func(lease *latchkey.Lease, between func()) error {
					return latchkey.InScope(lease.Context(), func(ctx context.Context, s *latchkey.Scope) error {
						tx, err := db.BeginTxx(ctx, nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						work := func() error {
							var n int
							if err := tx.GetContext(ctx, &n, "SELECT n FROM account WHERE id = 'a'"); err != nil {
								return err
							}
							between()
							_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = 'a'"), n+1)
							return err
						}
						if last {
							err = errors.Join(work(), s.Fence(ctx, dialect, latchkey.FenceOn(tx)), s.BeforeCommit(ctx))
						} else {
							err = s.Run(ctx, dialect, latchkey.FenceOn(tx), work)
						}
						if err != nil {
							return err
						}
						return tx.Commit()
					})
				}
				old, young := hold(t, newMinter(10)), hold(t, newMinter(20))
				hasRead, committed, newer := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				err := count(old, func() {
					go func() { newer <- count(young, func() { close(hasRead); <-committed }) }()
					if last {
						<-hasRead
					} else {
						d.awaitBlocked(t) // by the fence
					}
				})
				close(committed)
				if err := errors.Join(err, <-newer); err != nil {
					t.Fatal(err)
				}
				if n := value(t, db, "a"); n != map[bool]int{false: 2, true: 1}[last] {
					t.Errorf("counted %d of 2", n)
				}
			})
		}
	}
}

// hold returns a lease on "k" with a token of the store's.
func hold(t *testing.T, store latchkey.Store) *latchkey.Lease {
	t.Helper()
	locks := latchkey.New(store)
	t.Cleanup(locks.Close)
	lease, err := locks.Acquire(t.Context(), "k", latchkey.MintToken())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(t.Context())) })
	return lease
}

// A deadlock at the fence is no failure of the call: nothing of the function has run, so that the transaction begins anew.
func TestDeadlockAtTheFenceIsBegunAnew(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			db := d.open(t, 0)
			m := latchkey.NewTxManager(db, latchkey.Fenced())
			locks := latchkey.New(newMinter(10))
			defer locks.Close()
			runs := 0
			both := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, _ []string) error {
				runs++
				tx, _ := latchkey.TxFrom(ctx)
				return add(ctx, tx, "a", 1)
			})
			if err := both(t.Context(), []string{"a", "b"}); err != nil { // makes the rows
				t.Fatal(err)
			}
			// Somebody who takes the two rows the other way round, and will not be the victim.
			other, err := db.Beginx()
			if err != nil {
				t.Fatal(err)
			}
			defer other.Rollback()
			if kind == "postgres" {
				other.MustExec("SET LOCAL deadlock_timeout = '1min'")
			} else {
				db.MustExec("CREATE TABLE heavy (n int)")
				for i := range 50 {
					other.MustExec("INSERT INTO heavy VALUES (?)", i)
				}
			}
			take := func(key string) error {
				_, err := other.Exec("UPDATE latchkey_fence SET updated_at = updated_at, nonce = 'x' WHERE resource = 'latchkey:k:" + key + "'")
				return err
			}
			if err := take("b"); err != nil {
				t.Fatal(err)
			}
			before := deadlocks(t, d, db)
			done := make(chan error, 1)
			go func() { done <- both(t.Context(), []string{"a", "b"}) }()
			d.awaitBlocked(t)
			if err := take("a"); err != nil {
				t.Fatalf("the other one was the victim: %v", err)
			}
			if err := other.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil || runs != 2 || value(t, db, "a") != 2 {
				t.Errorf("got %v; the function ran %d times and counted %d, want 2 and 2", err, runs, value(t, db, "a"))
			}
			if n := deadlocks(t, d, db) - before; n != 1 {
				t.Errorf("the server has seen %d deadlocks, want 1", n)
			}
		})
	}
}

// deadlocks is how many the server has ended.
func deadlocks(t *testing.T, d database, db *sqlx.DB) (n int) {
	t.Helper()
	query := "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
	if d.kind == "mariadb" {
		query = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_deadlocks'"
	}
	if err := db.Get(&n, query); err != nil {
		t.Fatal(err)
	}
	return n
}
