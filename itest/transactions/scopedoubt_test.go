//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// codedError is an error of an application, with methods that drivers' errors have too.
type codedError struct{ error }

func (codedError) Code() int        { return 19 }
func (codedError) SQLState() string { return "23505" }
func (e codedError) Unwrap() error  { return e.error }

// scoped runs transactions of pgx in a scope, and notes how they end.
type scoped struct {
	pool    *pgxpool.Pool
	locks   *latchkey.Locks
	outcome latchkey.Outcome
	undone  bool // AfterRollback ran
	runs    int
}

func newScoped(t *testing.T, url string) *scoped {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &scoped{pool: pool, locks: latchkey.New(memstore.New())}
	t.Cleanup(s.locks.Close)
	return s
}

// run commits by hand and returns what end makes of COMMIT's error. Without a fence the scope learns of no dialect but by
// the options.
func (s *scoped) run(ctx context.Context, fence bool, opts []latchkey.ScopeOption,
	work func(pgx.Tx) error, end func(pgx.Tx, error) error,
) error {
	s.outcome, s.undone = latchkey.OutcomeCommitted, false
	s.runs++
	return latchkey.Action(s.locks.WithLock("k:#{param}"), func(ctx context.Context, _ int) error {
		return latchkey.InScope(ctx, func(ctx context.Context, sc *latchkey.Scope) error {
			if err := errors.Join(
				latchkey.AfterCompletion(ctx, func(_ context.Context, o latchkey.Outcome) { s.outcome = o }),
				latchkey.AfterRollback(ctx, func(context.Context) error { s.undone = true; return nil }),
			); err != nil {
				return err
			}
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(context.WithoutCancel(ctx))
			if fence {
				err = sc.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error { return work(tx) })
			} else if err = work(tx); err == nil {
				err = sc.BeforeCommit(ctx)
			}
			if err != nil {
				return err
			}
			if err := tx.Commit(ctx); err != nil {
				return end(tx, err)
			}
			return nil
		}, opts...)
	})(ctx, s.runs)
}

// busy reports whether the last run's lock is held.
func (s *scoped) busy() bool {
	le, err := s.locks.Acquire(context.Background(), fmt.Sprint("k:", s.runs))
	if err == nil {
		_ = le.Release(context.Background())
	}
	return errors.Is(err, latchkey.ErrBusy)
}

// What a function can make of an error of COMMIT.
var ends = map[string]func(tx pgx.Tx, err error) error{
	"as it is":                func(_ pgx.Tx, err error) error { return err },
	"wrapped":                 func(_ pgx.Tx, err error) error { return fmt.Errorf("commit: %w", err) },
	"an application's error":  func(_ pgx.Tx, err error) error { return codedError{err} },
	"joined with Rollback's":  func(tx pgx.Tx, err error) error { return errors.Join(err, tx.Rollback(context.Background())) },
	"Rollback's in its place": func(tx pgx.Tx, _ error) error { return tx.Rollback(context.Background()) },
}

// A scope took a lost answer to COMMIT for "rolled back" if the error looked like the answer of some database, ran
// AfterRollback and let the lock go, though the transaction was committed.
func TestScopeWhoseCommitIsLostIsNeverCalledRolledBack(t *testing.T) {
	c := newCuts(t, "postgres")
	_, port, err := net.SplitHostPort(c.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	s := newScoped(t, c.d.server.URLAt(n, c.d.name))
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			before := c.proxy.Counts().Cut
			c.arm(cutReply)
			err := s.run(t.Context(), true, nil, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO ledger VALUES ($1)", name)
				return err
			}, end)
			c.proxy.Heal()
			if !c.has(t, name) || c.proxy.Counts().Cut != before+1 {
				t.Fatal("not committed, or the answer was not lost: this run shows nothing")
			}
			if !errors.Is(err, latchkey.ErrOutcomeUnknown) || s.outcome != latchkey.OutcomeUnknown || s.undone {
				t.Errorf("got %v, outcome %v, AfterRollback ran: %v; want ErrOutcomeUnknown", err, s.outcome, s.undone)
			}
			if !s.busy() {
				t.Error("the lock was let go")
			}
		})
	}
}

// The control of the test above: the server refuses COMMIT, and whoever returns its answer as it is is told so. Only the
// dialect that the scope knows of counts.
func TestScopeWhoseCommitIsRefusedIsRolledBack(t *testing.T) {
	d := newDatabase(t, "postgres")
	db := d.open(t, 0)
	db.MustExec("CREATE TABLE once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	s := newScoped(t, d.url)
	for what, work := range map[string]func(pgx.Tx) error{
		"constraint": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO once VALUES (1), (1)")
			return err
		},
		"statement that failed before": func(tx pgx.Tx) error {
			_, _ = tx.Exec(t.Context(), "SELECT no_such_column")
			return nil
		},
	} {
		for how, tt := range map[string]struct {
			fence   bool
			opts    []latchkey.ScopeOption
			end     string
			certain bool
		}{
			"as it is":               {true, nil, "as it is", true},
			"told by an option":      {false, []latchkey.ScopeOption{latchkey.ScopeDialect(latchkey.PostgreSQL)}, "as it is", true},
			"another dialect":        {false, []latchkey.ScopeOption{latchkey.ScopeDialect(latchkey.MySQL)}, "as it is", false},
			"no dialect":             {false, nil, "as it is", false},
			"two dialects":           {true, []latchkey.ScopeOption{latchkey.ScopeDialect(latchkey.SQLite)}, "as it is", false},
			"wrapped":                {true, nil, "wrapped", false},
			"an application's error": {true, nil, "an application's error", false},
			"joined with Rollback's": {true, nil, "joined with Rollback's", false},
		} {
			t.Run(what+"/"+how, func(t *testing.T) {
				err := s.run(t.Context(), tt.fence, tt.opts, work, ends[tt.end])
				if err == nil || errors.Is(err, latchkey.ErrOutcomeUnknown) == tt.certain || s.undone != tt.certain || s.busy() == tt.certain {
					t.Errorf("got %v, AfterRollback ran: %v, locked: %v; want certain: %v", err, s.undone, s.busy(), tt.certain)
				}
			})
		}
	}
}

// After a second transaction in one scope its answer says nothing about the first one's.
func TestScopeOfTwoTransactionsIsNotJudgedByTheSecond(t *testing.T) {
	d := newDatabase(t, "postgres")
	db := d.open(t, 0)
	db.MustExec("CREATE TABLE once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	s := newScoped(t, d.url)
	undone := false
	err := latchkey.InScope(t.Context(), func(ctx context.Context, sc *latchkey.Scope) error {
		if err := latchkey.AfterRollback(ctx, func(context.Context) error { undone = true; return nil }); err != nil {
			return err
		}
		for _, text := range []string{"UPDATE account SET n = 1 WHERE id = 'a'", "INSERT INTO once VALUES (1), (1)"} {
			if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				return sc.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error {
					_, err := tx.Exec(ctx, text)
					return err
				})
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, latchkey.ErrOutcomeUnknown) || undone || value(t, db, "a") != 1 {
		t.Errorf("got %v, AfterRollback ran: %v, the first one has written %d; want ErrOutcomeUnknown", err, undone, value(t, db, "a"))
	}
}

// A scope that tries again after its transaction was rolled back raised no fence the second time.
func TestScopeThatTriesAgainIsFencedAgain(t *testing.T) {
	d := newDatabase(t, "postgres")
	s := newScoped(t, d.url)
	lease, err := latchkey.New(newMinter(10)).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(t.Context())
	tries := 0
	err = latchkey.InScope(lease.Context(), func(ctx context.Context, sc *latchkey.Scope) (err error) {
		for range 2 {
			tries++
			err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				return sc.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error {
					if tries == 1 {
						return errOwn
					}
					return nil
				})
			})
		}
		return err
	})
	if err != nil || tries != 2 {
		t.Fatalf("got %v after %d tries", err, tries)
	}
	if got := fenceToken(t, d); got != 10 {
		t.Errorf("the row has token %d, want 10", got)
	}
}

// Where an answer to COMMIT leaves the transaction open, on a connection that the library may use again, nothing is certain.
func TestScopeOnADatabaseThatKeepsARefusedTransactionOpenIsUnknown(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	db.MustExec("CREATE TABLE child (of varchar(20) REFERENCES account (id) DEFERRABLE INITIALLY DEFERRED)")
	for commit, want := range map[bool]bool{true: true, false: false} {
		err := latchkey.InScope(t.Context(), func(ctx context.Context, sc *latchkey.Scope) error {
			conn, err := db.Connx(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.ExecContext(ctx, "PRAGMA foreign_keys = ON"); err != nil {
				return err
			}
			tx, err := conn.BeginTx(ctx, &sql.TxOptions{})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := sc.Run(ctx, latchkey.SQLite, latchkey.FenceOn(tx), func() error {
				_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES ('nobody')")
				if err == nil && !commit { // an ordinary constraint, before COMMIT
					_, err = tx.ExecContext(ctx, "INSERT INTO account VALUES ('a', 0)")
				}
				return err
			}); err != nil {
				return err
			}
			return tx.Commit()
		})
		if err == nil || errors.Is(err, latchkey.ErrOutcomeUnknown) != want {
			t.Errorf("refused at COMMIT %v: got %v, want unknown: %v", commit, err, want)
		}
	}
}
