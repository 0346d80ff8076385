//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// MySQL commits a transaction that meets a CREATE TABLE. What comes after is no part of it any more: it is rolled back, and
// the answer is that nobody knows.
func TestStatementThatCommitsIsNotTakenForTheTransaction(t *testing.T) {
	d := newDatabase(t, "mariadb")
	db := d.open(t, 0)
	ddl := func(ctx context.Context, tx statementRunner) error {
		for _, query := range []string{
			"UPDATE account SET n = n + 1 WHERE id = 'a'", "CREATE TABLE IF NOT EXISTS late (n int)",
			"UPDATE account SET n = n + 100 WHERE id = 'a'",
		} {
			if _, err := tx.ExecContext(ctx, query); err != nil {
				return err
			}
		}
		return nil
	}
	for name, opts := range map[string][]latchkey.TxManagerOption{"not fenced": nil, "fenced": {latchkey.Fenced()}} {
		t.Run(name, func(t *testing.T) {
			before := value(t, db, "a")
			locks := latchkey.New(memstore.New())
			defer locks.Close()
			m := latchkey.NewTxManager(db, opts...)
			err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
				tx, _ := latchkey.TxFrom(ctx)
				return ddl(ctx, tx)
			})(t.Context(), "")
			if n := value(t, db, "a") - before; !errors.Is(err, latchkey.ErrOutcomeUnknown) || errors.Is(err, latchkey.ErrRollbackOnly) || n != 1 {
				t.Errorf("got %v, %d are there; want ErrOutcomeUnknown, and what was written before the CREATE TABLE", err, n)
			}
		})
	}
	before := value(t, db, "a")
	tx := db.MustBegin()
	if err := errors.Join(ddl(t.Context(), tx), tx.Commit()); err != nil || value(t, db, "a")-before != 101 {
		t.Errorf("control, by hand: %v, %d are there, want 101", err, value(t, db, "a")-before)
	}
}

// A pooled connection is given back as it was, whatever the program has set in it.
func TestSettingsOfASessionAreRestored(t *testing.T) {
	d := newDatabase(t, "mariadb")
	const ask = "SELECT concat_ws(' ', @@autocommit + 0, @@innodb_lock_wait_timeout, @@idle_transaction_timeout, @@tx_isolation, @@tx_read_only)"
	for _, autocommit := range []string{"0", "1"} {
		sep := "?"
		if strings.Contains(d.url, "?") {
			sep = "&"
		}
		db := openURL(t, d.driver, d.url+sep+"innodb_lock_wait_timeout=17&idle_transaction_timeout=33&autocommit="+autocommit, 1)
		var was, inside, after string
		if err := db.Get(&was, ask); err != nil || !strings.HasPrefix(was, autocommit+" 17 33 ") {
			t.Fatalf("void: %q, %v", was, err)
		}
		db.MustExec("ROLLBACK") // with autocommit=0 the question has begun a transaction
		locks := latchkey.New(memstore.New())
		defer locks.Close()
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		db.MustExec("INSERT IGNORE INTO latchkey_fence VALUES ('latchkey:k', 0, '', '', now())")
		db.MustExec("COMMIT")
		for _, fail := range []error{nil, errOwn} {
			for _, opt := range []latchkey.TxOption{latchkey.Isolation(sql.LevelReadCommitted), latchkey.ReadOnly()} {
				lock := locks.WithLock("k", latchkey.Transactional(m, opt))
				err := latchkey.Action(lock, func(ctx context.Context, _ string) error {
					tx, _ := latchkey.TxFrom(ctx)
					return errors.Join(tx.GetContext(ctx, &inside, ask), fail)
				})(t.Context(), "")
				if !errors.Is(err, fail) || fail == nil && err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(inside, "0 ") {
					t.Errorf("inside: %q, want autocommit off", inside)
				}
				if err := db.Get(&after, ask); err != nil || after != was {
					t.Errorf("afterwards: %q, %v; before %q", after, err, was)
				}
				db.MustExec("ROLLBACK")
			}
		}
	}
}

// A savepoint begins the transaction in the mode that was asked for, and the next one is not in it.
func TestModeOfATransactionOnMariaDB(t *testing.T) {
	d := newDatabase(t, "mariadb")
	db, other := d.open(t, 1), d.open(t, 1)
	m := latchkey.NewTxManager(db)
	for range 2 {
		if err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			return add(ctx, tx, "b", 1)
		}, latchkey.ReadOnly()); err == nil || !strings.Contains(err.Error(), "1792") {
			t.Errorf("a write in a read-only transaction: %v", err)
		}
		for level, want := range map[sql.IsolationLevel]int{sql.LevelReadCommitted: 1, sql.LevelDefault: 0} {
			var before, after int
			err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
				const read = "SELECT n FROM account WHERE id = 'a'"
				err := tx.GetContext(ctx, &before, read)
				other.MustExec("UPDATE account SET n = n + 1 WHERE id = 'a'")
				return errors.Join(err, tx.GetContext(ctx, &after, read), add(ctx, tx, "c", 1))
			}, latchkey.Isolation(level))
			if err != nil || after-before != want {
				t.Errorf("%v: %v; somebody's write was seen %d times, want %d", level, err, after-before, want)
			}
		}
	}
}

// A driver without hooks is asked: before each statement, once something may have gone wrong unseen.
func TestHalfOfATransactionIsCommittedThroughADriverWithoutHooks(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := (&statements{}).open(t, d)
	plain := d.open(t, 1)
	m := latchkey.NewTxManager(db)
	const rollback = "INSERT OR ROLLBACK INTO account VALUES ('a', 1) RETURNING n"
	for way, run := range ways {
		before := value(t, plain, "a")
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			if err := add(ctx, tx, "a", 1); err != nil {
				return err
			}
			if err := run(ctx, tx, rollback); err == nil {
				t.Error("no error")
			}
			_, _ = tx.ExecContext(ctx, "UPDATE account SET n = n + 100 WHERE id = 'a'")
			return nil
		})
		if n := value(t, plain, "a") - before; n != 0 {
			t.Errorf("%s: %d are there, want none; the answer was %v", way, n, err)
		}
		want := latchkey.ErrRollbackOnly
		if strings.HasPrefix(way, "Prepare") {
			want = latchkey.ErrOutcomeUnknown // the statement could have been run again
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", way, err, want)
		}
	}
	// What nobody sees is at least not called rolled back.
	err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
		return swallowing(ctx, tx, func() error {
			_, _ = tx.ExecContext(ctx, rollback)
			return nil
		})
	})
	if n := value(t, plain, "a"); !errors.Is(err, latchkey.ErrOutcomeUnknown) || errors.Is(err, latchkey.ErrRollbackOnly) {
		t.Errorf("a prepared statement that goes on: got %v, %d are there", err, n)
	}
}

// Reads that are interrupted leave the transaction as it was, and so does a savepoint that is rolled back.
func TestInterruptedReadInSQLiteEndsNoTransaction(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	m := latchkey.NewTxManager(db)
	for way, run := range ways {
		before := value(t, db, "a")
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			if err := add(ctx, tx, "a", 1); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			err := run(short, tx, "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 500000000) SELECT count(*) FROM c")
			if err == nil {
				t.Errorf("%s: it was not interrupted", way)
			}
			_ = m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
				return errors.Join(add(ctx, tx, "a", 10), errOwn)
			}, latchkey.Savepoint())
			return add(ctx, tx, "a", 100)
		})
		if n := value(t, db, "a") - before; err != nil || n != 101 {
			t.Errorf("%s: got %v, %d are there, want 101", way, err, n)
		}
	}
}

// The hooks of a connection are shared by all managers, and let everything pass that is no transaction of theirs.
func TestConnectionOfALostTransactionGoesOn(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 1)
	managers := []*latchkey.TxManager{latchkey.NewTxManager(db), latchkey.NewTxManager(db)}
	for i := range 6 {
		m := managers[i%2]
		lose := i%3 == 0
		before := value(t, db, "a")
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			if lose {
				_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO account VALUES ('a', 1)")
			}
			_ = add(ctx, tx, "a", 1)
			return nil
		})
		if n := value(t, db, "a") - before; errors.Is(err, latchkey.ErrRollbackOnly) != lose || (n == 0) != lose {
			t.Errorf("%d: got %v, %d are there", i, err, n)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE account SET n = n + 1 WHERE id = 'a'"); err != nil {
			t.Errorf("%d: a write without a transaction: %v", i, err)
		}
	}
}

// SQLite's own COMMIT and ROLLBACK, written by hand, end nothing that latchkey answers for.
func TestCommitByHandInsideATransactionOfSQLite(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		before := value(t, db, "a")
		err := latchkey.NewTxManager(db).InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			err := add(ctx, tx, "a", 1)
			_, _ = tx.ExecContext(ctx, end)
			_, _ = tx.ExecContext(ctx, "BEGIN")
			_ = add(ctx, tx, "a", 100)
			return err
		})
		if n := value(t, db, "a") - before; !errors.Is(err, latchkey.ErrRollbackOnly) || n != 0 {
			t.Errorf("%s: got %v, %d are there; want ErrRollbackOnly and none", end, err, n)
		}
	}
}

func TestIsolationLevelThatMySQLLacksCostsNoConnection(t *testing.T) {
	d := newDatabase(t, "mariadb")
	db := d.open(t, 0)
	open := db.Stats().OpenConnections
	err := latchkey.NewTxManager(db).InTx(t.Context(), func(context.Context, *latchkey.Tx) error {
		t.Error("it ran")
		return nil
	}, latchkey.Isolation(sql.LevelLinearizable))
	if err == nil || !strings.Contains(err.Error(), "Linearizable") {
		t.Errorf("got %v", err)
	}
	if st := db.Stats(); st.OpenConnections != open || st.InUse != 0 {
		t.Errorf("%d connections, before %d", st.OpenConnections, open)
	}
}
