//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// statementRunner is what *latchkey.Tx and *sqlx.Tx have in common.
type statementRunner interface {
	sqlx.ExtContext
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error)
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
	NamedExecContext(ctx context.Context, query string, arg any) (sql.Result, error)
}

// drain reads rows to their end and returns the error that they end with.
func drain(rows interface {
	Next() bool
	Err() error
	Close() error
}) error {
	for rows.Next() {
		continue
	}
	return errors.Join(rows.Err(), rows.Close())
}

// ways are the ways to run a statement, and where its error comes out.
var ways = map[string]func(ctx context.Context, tx statementRunner, query string) error{
	"Exec": func(ctx context.Context, tx statementRunner, query string) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	},
	"NamedExec": func(ctx context.Context, tx statementRunner, query string) error {
		_, err := tx.NamedExecContext(ctx, query, map[string]any{})
		return err
	},
	"Query": func(ctx context.Context, tx statementRunner, query string) error {
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		return drain(rows)
	},
	"Queryx": func(ctx context.Context, tx statementRunner, query string) error {
		rows, err := tx.QueryxContext(ctx, query)
		if err != nil {
			return err
		}
		return drain(rows)
	},
	"QueryRow": func(ctx context.Context, tx statementRunner, query string) error {
		var n int
		return tx.QueryRowContext(ctx, query).Scan(&n)
	},
	"QueryRowx": func(ctx context.Context, tx statementRunner, query string) error {
		var n int
		return tx.QueryRowxContext(ctx, query).Scan(&n)
	},
	"Get": func(ctx context.Context, tx statementRunner, query string) error {
		var n int
		return tx.GetContext(ctx, &n, query)
	},
	"Select": func(ctx context.Context, tx statementRunner, query string) error {
		var n []int
		return tx.SelectContext(ctx, &n, query)
	},
	"Prepare, Exec": func(ctx context.Context, tx statementRunner, query string) error {
		stmt, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		_, err = stmt.ExecContext(ctx)
		return err
	},
	"Prepare, Query": func(ctx context.Context, tx statementRunner, query string) error {
		stmt, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		rows, err := stmt.QueryContext(ctx)
		if err != nil {
			return err
		}
		return drain(rows)
	},
	"Preparex, QueryRowx": func(ctx context.Context, tx statementRunner, query string) error {
		stmt, err := tx.PreparexContext(ctx, query)
		if err != nil {
			return err
		}
		var n int
		return stmt.QueryRowxContext(ctx).Scan(&n)
	},
}

// swallowing is a function that goes on after its transaction is gone: a write before it, the statement that ends it,
// and writes after it, through the handle and through a statement that was prepared before.
func swallowing(ctx context.Context, tx statementRunner, spoil func() error) error {
	blind, err := tx.PrepareContext(ctx, tx.Rebind("UPDATE account SET n = n + ? WHERE id = 'a'"))
	if err != nil {
		return err
	}
	if _, err := blind.ExecContext(ctx, 1); err != nil {
		return err
	}
	if err := spoil(); err != nil {
		return err
	}
	_, _ = blind.ExecContext(ctx, 100)
	_, _ = tx.ExecContext(ctx, "UPDATE account SET n = n + 1000 WHERE id = 'a'")
	_, _ = blind.ExecContext(ctx, 10000)
	return nil
}

// behind is how a database rolls a transaction back on its own account. spoil is run in it and reports how often it has
// happened; halves says what a hand-written transaction leaves behind then.
type behind struct {
	kind   string
	spoil  func(t *testing.T, d database, db *sqlx.DB) func(ctx context.Context, run func(ctx context.Context, query string) error) error
	halves int
}

var behinds = map[string]behind{
	"deadlock": {"mariadb", spoilByDeadlock, 11100},
	"constraint that rolls back": {"sqlite", spoilBy(func(context.Context) (context.Context, context.CancelFunc, string) {
		return nil, nil, "INSERT OR ROLLBACK INTO account VALUES ('a', 1) RETURNING n"
	}), 11100},
	"interrupted write": {"sqlite", spoilBy(func(ctx context.Context) (context.Context, context.CancelFunc, string) {
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		return short, cancel, `INSERT INTO account WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 50000000)
			SELECT 'many' || i, i FROM c RETURNING n`
	}), 11100},
	// An aborted transaction refuses all statements and answers COMMIT with ROLLBACK: the server sees to it.
	"error": {"postgres", spoilBy(func(context.Context) (context.Context, context.CancelFunc, string) {
		return nil, nil, "SELECT 1 / 0"
	}), 0},
}

// A transaction that the database has rolled back behind its back commits nothing, whatever became of the error: not what came
// before, which is gone, and not what came after, unfenced. The answer says so.
func TestHalfOfATransactionIsCommitted(t *testing.T) {
	for name, b := range behinds {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, b.kind)
			db := d.open(t, 0)
			locks := latchkey.New(memstore.New())
			defer locks.Close()
			for way, run := range ways {
				for _, fenced := range []bool{false, true} {
					var opts []latchkey.TxManagerOption
					title := way
					if fenced {
						opts, title = append(opts, latchkey.Fenced()), way+" fenced"
					}
					t.Run(title, func(t *testing.T) {
						spoil := b.spoil(t, d, db)
						before := value(t, db, "a")
						var outcome latchkey.Outcome
						spoilt := false
						m := latchkey.NewTxManager(db, opts...)
						err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
							tx, _ := latchkey.TxFrom(ctx)
							if err := latchkey.AfterCompletion(ctx, func(_ context.Context, o latchkey.Outcome) { outcome = o }); err != nil {
								return err
							}
							return swallowing(ctx, tx, func() error {
								err := spoil(ctx, func(ctx context.Context, query string) error { return run(ctx, tx, query) })
								spoilt = err != nil
								return nil
							})
						})(t.Context(), "")
						if !spoilt {
							t.Fatal("the statement succeeded: this run shows nothing")
						}
						if n := value(t, db, "a") - before; n != 0 {
							t.Errorf("%d are there, want none; the answer was %v", n, err)
						}
						if outcome == latchkey.OutcomeCommitted || err == nil {
							t.Errorf("answered %v, outcome %v", err, outcome)
						}
						// Without a fence MySQL can't tell a rollback that nobody has seen from a commit.
						if unseen := errors.Is(err, latchkey.ErrOutcomeUnknown); unseen != (outcome == latchkey.OutcomeUnknown) ||
							unseen && (fenced || d.kind != "mariadb") {
							t.Errorf("answered %v, outcome %v", err, outcome)
						}
						if le, err := locks.Acquire(t.Context(), "k"); err == nil {
							_ = le.Release(t.Context())
						} else if outcome == latchkey.OutcomeRolledBack {
							t.Errorf("still locked: %v", err)
						} else {
							locks = latchkey.New(memstore.New())
						}
					})
				}
			}
		})
	}
}

// The control: the same by hand.
func TestHalfOfAHandWrittenTransactionIsCommitted(t *testing.T) {
	for name, b := range behinds {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, b.kind)
			db := d.open(t, 0)
			for way, run := range ways {
				spoil := b.spoil(t, d, db)
				before := value(t, db, "a")
				tx := db.MustBegin()
				err := swallowing(t.Context(), tx, func() error {
					if err := spoil(t.Context(), func(ctx context.Context, query string) error { return run(ctx, tx, query) }); err == nil {
						t.Errorf("%s: no error", way)
					}
					return nil
				})
				_ = errors.Join(err, tx.Commit())
				if n := value(t, db, "a") - before; n != b.halves {
					t.Errorf("%s: %d are there, want %d: the test of halves shows nothing", way, n, b.halves)
				}
			}
		})
	}
}

// spoilBy runs a statement that the database answers with a rollback.
func spoilBy(how func(context.Context) (context.Context, context.CancelFunc, string)) func(
	*testing.T, database, *sqlx.DB) func(context.Context, func(context.Context, string) error) error {
	return func(*testing.T, database, *sqlx.DB) func(context.Context, func(context.Context, string) error) error {
		return func(ctx context.Context, run func(context.Context, string) error) error {
			short, cancel, query := how(ctx)
			if short == nil {
				return run(ctx, query)
			}
			defer cancel()
			return run(short, query)
		}
	}
}

// spoilByDeadlock makes the transaction the victim of a deadlock with a larger one.
func spoilByDeadlock(t *testing.T, d database, db *sqlx.DB) func(context.Context, func(context.Context, string) error) error {
	db.MustExec("CREATE TABLE IF NOT EXISTS filler (n int)")
	locked, crossed := make(chan struct{}), make(chan struct{})
	other := make(chan error, 1)
	go func() {
		other <- func() error {
			tx, err := db.Beginx()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			// Many changes, so that InnoDB takes the other one for the victim.
			for i := range 50 {
				if _, err := tx.Exec("INSERT INTO filler VALUES (?)", i); err != nil {
					return err
				}
			}
			if _, err := tx.Exec("UPDATE account SET n = n + 1000 WHERE id = 'b'"); err != nil {
				return err
			}
			close(locked)
			<-crossed
			_, err = tx.Exec("UPDATE account SET n = n + 1000 WHERE id = 'a'")
			return err
		}()
	}()
	<-locked
	return func(ctx context.Context, run func(context.Context, string) error) error {
		close(crossed)
		d.awaitBlocked(t)
		err := run(ctx, "SELECT n FROM account WHERE id IN ('a', 'b') ORDER BY id FOR UPDATE")
		if o := <-other; o != nil {
			t.Errorf("the other transaction: %v", o)
		}
		return err
	}
}
