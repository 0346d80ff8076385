//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// A snapshot that is older than the lock shows what the lock's last holder has since changed.
func TestLockInsideASnapshot(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		level  sql.IsolationLevel
		fenced bool
		opts   []latchkey.TxOption
		ok     bool
	}{
		{"postgres", sql.LevelDefault, false, nil, true},
		{"postgres", sql.LevelReadCommitted, false, nil, true},
		{"postgres", sql.LevelRepeatableRead, false, nil, false},
		{"postgres", sql.LevelSerializable, false, nil, false},
		{"postgres", sql.LevelRepeatableRead, true, nil, true},
		{"postgres", sql.LevelRepeatableRead, false, []latchkey.TxOption{latchkey.AllowStaleSnapshot()}, true},
		{"mariadb", sql.LevelDefault, false, nil, false},
		{"mariadb", sql.LevelDefault, true, nil, false}, // innodb_snapshot_isolation is off
		{"mariadb", sql.LevelReadCommitted, true, nil, true},
		{mariadbDetects, sql.LevelDefault, true, nil, true},
		{mariadbDetects, sql.LevelSerializable, true, nil, true},
		{mariadbDetects, sql.LevelDefault, false, nil, false},
		{"sqlite", sql.LevelDefault, false, nil, false},
		{"sqlite", sql.LevelDefault, true, nil, true},
	} {
		t.Run(fmt.Sprintf("%s %v fenced %v opted in %v", tt.kind, tt.level, tt.fenced, tt.opts != nil), func(t *testing.T) {
			d := newDatabase(t, tt.kind)
			db := d.open(t, 0)
			var opts []latchkey.TxManagerOption
			if tt.fenced {
				opts = append(opts, latchkey.Fenced())
			}
			m := latchkey.NewTxManager(db, opts...)
			locks := latchkey.New(memstore.New())
			lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
			run := func(read bool) (inner, outer error) {
				outer = m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
					if read {
						var n int
						if err := tx.GetContext(ctx, &n, "SELECT n FROM account WHERE id = 'a'"); err != nil {
							return err
						}
					}
					inner = lock(ctx, "a")
					return nil
				}, append(tt.opts, latchkey.Isolation(tt.level))...)
				return inner, outer
			}
			if inner, outer := run(false); inner != nil || outer != nil {
				t.Errorf("before the first statement: %v, %v", inner, outer)
			}
			inner, outer := run(true)
			if (inner == nil) != tt.ok || outer != nil {
				t.Errorf("after a statement: %v, %v; want allowed: %v", inner, outer, tt.ok)
			}
			if !tt.ok && !strings.Contains(inner.Error(), "AllowStaleSnapshot()") {
				t.Errorf("the error does not say what to do: %v", inner)
			}
			if _, err := locks.Acquire(t.Context(), "k:a"); err != nil {
				t.Errorf("still locked: %v", err)
			}
		})
	}
}

// A savepoint reads nothing, so a lock right behind it is as good as one at the transaction's beginning.
func TestLockBehindASavepointIsNotTakenForALateOne(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Isolation(sql.LevelSerializable))
		locks := latchkey.New(memstore.New())
		lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
		err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
			return m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
				db.MustExec("UPDATE account SET n = 5 WHERE id = 'a'") // the last holder, just before us
				if err := lock(ctx, "a"); err != nil {
					t.Errorf("before any statement of its own: %v", err)
				}
				if err := increment(ctx, tx, "a"); err != nil {
					t.Error(err)
				}
				if err := lock(ctx, "b"); err == nil {
					t.Error("locked after a statement, so this test shows nothing")
				}
				return nil
			}, latchkey.Savepoint())
		})
		if n := value(t, db, "a"); err != nil || n != 6 {
			t.Errorf("got %v and the account has %d, want 6", err, n)
		}
	})
}

// The fence turns a lock inside an old snapshot into an error of the database where somebody else has committed since. The
// control is a database that does not look, and loses what that one has counted.
func TestFenceInsideASnapshotFindsStaleness(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		level sql.IsolationLevel
		says  string // "": the control
		opts  []latchkey.TxOption
	}{
		{"postgres", sql.LevelRepeatableRead, "40001", nil},
		{"postgres", sql.LevelSerializable, "40001", nil},
		{mariadbDetects, sql.LevelRepeatableRead, "1020", nil},
		{"sqlite", sql.LevelSerializable, "517", nil},
		{"mariadb", sql.LevelRepeatableRead, "", []latchkey.TxOption{latchkey.AllowStaleSnapshot()}},
	} {
		t.Run(fmt.Sprintf("%s %v", tt.kind, tt.level), func(t *testing.T) {
			d := newDatabase(t, tt.kind)
			db := d.open(t, 0)
			m := latchkey.NewTxManager(db, latchkey.Fenced(latchkey.FenceWait(time.Second)), latchkey.Isolation(tt.level))
			locks := latchkey.New(memstore.New())
			count := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				return increment(ctx, tx, id)
			})
			err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
				var n int
				if err := tx.GetContext(ctx, &n, "SELECT n FROM account WHERE id = 'a'"); err != nil {
					return err
				}
				if err := count(context.WithoutCancel(t.Context()), "a"); err != nil { // somebody else
					t.Errorf("somebody else: %v", err)
				}
				return count(ctx, "a")
			}, tt.opts...)
			if n := value(t, db, "a"); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) || n != 1 {
				t.Errorf("got %v, counted %d; want an error with %q and 1", err, n, tt.says)
			}
		})
	}
}

// Under an old snapshot the function does not see what the lock's last holder has written, and writes it again.
func TestLockInsideAnOldSnapshotWouldWriteTwice(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb"} {
		for name, tt := range map[string]struct {
			opts    []latchkey.TxOption
			rows    int
			refused bool
		}{
			"refused":             {nil, 1, true},
			"control: allowed":    {[]latchkey.TxOption{latchkey.AllowStaleSnapshot()}, 2, false},
			"not in one snapshot": {[]latchkey.TxOption{latchkey.Isolation(sql.LevelReadCommitted)}, 1, false},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				d := newDatabase(t, kind)
				db := d.open(t, 0)
				db.MustExec("CREATE TABLE payment (order_id varchar(20))")
				m := latchkey.NewTxManager(db, latchkey.Isolation(sql.LevelRepeatableRead))
				locks := latchkey.New(memstore.New())
				defer locks.Close()
				paid := func(ctx context.Context, tx *latchkey.Tx) (n int, err error) {
					err = tx.GetContext(ctx, &n, "SELECT count(*) FROM payment WHERE order_id = 'o'")
					return n, err
				}
				pay := latchkey.Action(locks.WithLock("order:#{param}"), func(ctx context.Context, id string) error {
					tx, _ := latchkey.TxFrom(ctx)
					if n, err := paid(ctx, tx); n > 0 || err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO payment VALUES (?)"), id)
					return err
				})
				err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
					if _, err := paid(ctx, tx); err != nil { // the snapshot is taken here
						return err
					}
					if err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error { return pay(ctx, "o") }); err != nil {
						t.Errorf("the other one: %v", err)
					}
					return pay(ctx, "o")
				}, tt.opts...)
				if refused := err != nil && strings.Contains(err.Error(), "AllowStaleSnapshot()"); refused != tt.refused || err != nil && !refused {
					t.Errorf("got %v, want refused: %v", err, tt.refused)
				}
				var rows int
				if err := db.Get(&rows, "SELECT count(*) FROM payment"); err != nil || rows != tt.rows {
					t.Errorf("paid %d times (%v), want %d", rows, err, tt.rows)
				}
			})
		}
	}
}
