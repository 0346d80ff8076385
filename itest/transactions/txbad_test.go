//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// panics returns the text of f's panic.
func panics(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		r := recover()
		if r == nil {
			t.Error("no panic")
			return
		}
		text = r.(string)
	}()
	f()
	return ""
}

func TestWiringMistakes(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	locks := latchkey.New(memstore.New())
	action := func(context.Context, string) error { return nil }
	for _, tt := range []struct {
		name string
		do   func()
		want string
	}{
		{"nil database", func() { latchkey.NewTxManager(nil) }, "sqlx.Connect"},
		{"unknown driver", func() {
			oracle := sql.OpenDB(unknownConnector{})
			defer oracle.Close()
			latchkey.NewTxManager(sqlx.NewDb(oracle, "oracle"))
		}, "DialectOf("},
		{"unknown dialect", func() { latchkey.NewTxManager(db, latchkey.DialectOf("oracle")) }, "postgresql, mysql and sqlite"},
		{"unknown dialect's schema", func() { latchkey.FenceSchema("oracle") }, "postgresql, mysql and sqlite"},
		{"nil option", func() { latchkey.NewTxManager(db, nil) }, "option 1 is nil"},
		{"commit timeout of 0", func() { latchkey.NewTxManager(db, latchkey.CommitTimeout(0)) }, "must be positive"},
		{"negative fence wait", func() { latchkey.NewTxManager(db, latchkey.Fenced(latchkey.FenceWait(-1))) }, "must be positive"},
		{"savepoint as the default", func() { latchkey.NewTxManager(db, latchkey.Savepoint()) }, "single calls"},
		{"no manager", func() { latchkey.Action(locks.WithLock("k", latchkey.Transactional(nil)), action) }, "NewTxManager"},
		{"commit longer than the lease", func() {
			m := latchkey.NewTxManager(db, latchkey.CommitTimeout(time.Minute))
			latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), action)
		}, "RenewedLease"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if text := panics(t, tt.do); !strings.Contains(text, tt.want) {
				t.Errorf("panic %q does not contain %q", text, tt.want)
			}
		})
	}
	var none *latchkey.TxManager
	if err := none.InTx(t.Context(), func(context.Context, *latchkey.Tx) error { return nil }); err == nil {
		t.Error("a nil manager began a transaction")
	}
	if err := latchkey.NewTxManager(db).InTx(t.Context(), nil); err == nil {
		t.Error("a nil function was run")
	}
}

func TestMissingFenceTable(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		db.MustExec("DROP TABLE latchkey_fence")
		for _, opts := range [][]latchkey.FenceOption{nil, {latchkey.DatabaseTokens()}} {
			m := latchkey.NewTxManager(db, latchkey.Fenced(opts...))
			locks := latchkey.New(memstore.New())
			err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(context.Context, string) error {
				t.Error("the function ran unfenced")
				return nil
			})(t.Context(), "a")
			if err == nil || !strings.Contains(err.Error(), "EnsureFenceTable") || errors.Is(err, latchkey.ErrFenced) {
				t.Errorf("got %v", err)
			}
			if _, err := locks.Acquire(t.Context(), "k"); err != nil {
				t.Errorf("still locked: %v", err)
			}
		}
	})
}

func TestReadOnlyDatabase(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		switch d.kind {
		case "postgres":
			d.url += "&default_transaction_read_only=on"
		case "mariadb":
			d.url += "&tx_read_only=1"
		case "sqlite":
			d.url += "&mode=ro&_pragma=query_only(1)"
		}
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		locks := latchkey.New(memstore.New())
		ran := false
		err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(context.Context, string) error {
			ran = true
			return nil
		})(t.Context(), "a")
		if err == nil || ran || errors.Is(err, latchkey.ErrFenced) {
			t.Errorf("got %v, ran: %v", err, ran)
		}
		t.Log(err)
		if _, err := locks.Acquire(t.Context(), "k"); err != nil {
			t.Errorf("still locked: %v", err)
		}
	})
}

func TestReadOnlyTransactionRaisesNoFence(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced(), latchkey.ReadOnly())
		locks := latchkey.New(memstore.New())
		err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
			tx, _ := latchkey.TxFrom(ctx)
			var n int
			return tx.GetContext(ctx, &n, "SELECT n FROM account WHERE id = 'a'")
		})(t.Context(), "a")
		var rows int
		if err2 := db.Get(&rows, "SELECT count(*) FROM latchkey_fence"); err != nil || err2 != nil || rows != 0 {
			t.Errorf("got %v, %v; %d fence rows", err, err2, rows)
		}
	})
}

func TestPoolOfOneConnection(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for _, fenced := range []bool{false, true} {
			db := d.open(t, 1)
			opts := []latchkey.TxManagerOption{latchkey.ConnTimeout(300 * time.Millisecond)}
			if fenced {
				opts = append(opts, latchkey.Fenced())
			}
			m := latchkey.NewTxManager(db, opts...)
			locks := latchkey.New(memstore.New())
			start := time.Now()
			work := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				if err := increment(ctx, tx, id); err != nil {
					return err
				}
				err := m.InTx(ctx, func(context.Context, *latchkey.Tx) error { return nil }, latchkey.NewTransaction(), latchkey.WithoutFence())
				if err == nil || !strings.Contains(err.Error(), "SetMaxOpenConns") {
					t.Errorf("a second transaction: %v", err)
				}
				return nil
			})
			if err := work(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			// A lock inside the transaction, whose fence row has to be made.
			inner := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
			if err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error { return inner(ctx, "new") }); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		}
	})
}

func TestEndedContext(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db)
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := m.InTx(ctx, func(context.Context, *latchkey.Tx) error { t.Error("ran"); return nil }); !errors.Is(err, why) {
			t.Errorf("before: %v, want the cause", err)
		}
		for _, wrapped := range []bool{false, true} {
			ctx, cancel = context.WithCancelCause(t.Context())
			err := m.InTx(ctx, func(inner context.Context, tx *latchkey.Tx) error {
				if err := add(inner, tx, "a", 1); err != nil {
					return err
				}
				cancel(why)
				if wrapped {
					return add(inner, tx, "a", 1)
				}
				return nil
			})
			if !errors.Is(err, why) {
				t.Errorf("during: %v, want the cause", err)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections in use: it was not rolled back synchronously", n)
			}
		}
		if n := value(t, db, "a"); n != 0 {
			t.Errorf("committed %d", n)
		}
	})
}

func TestHandleKeptAndUsedAfterwards(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 1)
		m := latchkey.NewTxManager(db)
		var kept *latchkey.Tx
		var rows *sql.Rows
		var stmt *sql.Stmt
		if err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) (err error) {
			kept = tx
			rows, err = tx.QueryContext(ctx, "SELECT id FROM account")
			if err == nil && d.kind != "mariadb" && d.kind != "postgres" { // whose connections do one thing at a time
				stmt, err = tx.PrepareContext(ctx, "SELECT id FROM account")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if rows.Next() {
			t.Error("rows outlived the transaction")
		}
		_ = rows.Err()
		if stmt != nil {
			if _, err := stmt.Exec(); err == nil {
				t.Error("a statement outlived the transaction")
			}
		}
		ctx := t.Context()
		var s string
		var all []string
		_, err1 := kept.ExecContext(ctx, "UPDATE account SET n = 99")
		_, err2 := kept.QueryContext(ctx, "SELECT 1")
		_, err3 := kept.QueryxContext(ctx, "SELECT 1")
		_, err4 := kept.PrepareContext(ctx, "SELECT 1")
		_, err5 := kept.PreparexContext(ctx, "SELECT 1")
		_, err6 := kept.NamedExecContext(ctx, "UPDATE account SET n = :n", map[string]any{"n": 99})
		_, err7 := kept.NamedQueryContext(ctx, "SELECT :n", map[string]any{"n": 99})
		for i, err := range []error{
			err1, err2, err3, err4, err5, err6, err7,
			kept.GetContext(ctx, &s, "SELECT 1"), kept.SelectContext(ctx, &all, "SELECT 1"),
			kept.QueryRowContext(ctx, "SELECT 1").Scan(&s), kept.QueryRowxContext(ctx, "SELECT 1").Scan(&s),
		} {
			if !errors.Is(err, latchkey.ErrTxFinished) {
				t.Errorf("method %d: %v, want ErrTxFinished", i+1, err)
			}
		}
		if n := value(t, db, "a"); n != 0 {
			t.Errorf("the account has %d", n)
		}
	})
}

// What sqlx users do works in the transaction.
func TestHandle(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 1)
		m := latchkey.NewTxManager(db)
		type account struct {
			ID string `db:"id"`
			N  int    `db:"n"`
		}
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			if _, err := tx.NamedExecContext(ctx, "UPDATE account SET n = :n WHERE id = :id", account{"a", 5}); err != nil {
				return err
			}
			stmt, err := tx.PreparexContext(ctx, tx.Rebind("SELECT id, n FROM account WHERE id = ?"))
			if err != nil {
				return err
			}
			var a account
			if err := stmt.GetContext(ctx, &a, "a"); err != nil || a.N != 5 {
				t.Errorf("prepared: %v, %v", a, err)
			}
			var list []account
			if err := tx.SelectContext(ctx, &list, "SELECT id, n FROM account ORDER BY id"); err != nil || len(list) != len(accounts) {
				t.Errorf("select: %v, %v", list, err)
			}
			if err := tx.QueryRowxContext(ctx, "SELECT id, n FROM account WHERE id = 'a'").StructScan(&a); err != nil {
				t.Error(err)
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT n FROM account WHERE id = 'a'").Scan(&n); err != nil || n != 5 {
				t.Errorf("row: %d, %v", n, err)
			}
			rows, err := tx.NamedQueryContext(ctx, "SELECT id, n FROM account WHERE id = :id", a)
			if err != nil {
				return err
			}
			defer rows.Close()
			if !rows.Next() || rows.StructScan(&a) != nil {
				t.Error("named query: no row")
			}
			return errors.Join(rows.Close(), rows.Err())
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := value(t, db, "a"); n != 5 {
			t.Errorf("committed %d", n)
		}
	})
}
