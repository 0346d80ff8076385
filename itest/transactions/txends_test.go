//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// endings are the ways in which a function ends without returning nil.
var endings = map[string]func() error{
	"error":   func() error { return errOwn },
	"panic":   func() error { panic(errOwn) },
	"Goexit":  func() error { runtime.Goexit(); return nil },
	"FailNow": func() error { new(testing.T).FailNow(); return nil },
}

// ended is a test's environment for one ending of one path.
type ended struct {
	db    *sqlx.DB
	kind  string
	m     *latchkey.TxManager
	locks *latchkey.Locks
	hooks []string // those that ran, with their path's name
}

// note registers hooks that say how the transaction ended.
func (e *ended) note(ctx context.Context, name string) error {
	return errors.Join(
		latchkey.AfterCommit(ctx, func(context.Context) error { e.hooks = append(e.hooks, name+" committed"); return nil }),
		latchkey.AfterRollback(ctx, func(context.Context) error { e.hooks = append(e.hooks, name+" rolled back"); return nil }),
	)
}

// lock takes k:a, which an open transaction then carries.
func (e *ended) lock(ctx context.Context) error {
	return latchkey.Action(e.locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })(ctx, "a")
}

// step is what each path runs inside: it takes the lock, writes and ends.
func (e *ended) step(end func() error) func(context.Context, *latchkey.Tx) error {
	return func(ctx context.Context, tx *latchkey.Tx) error {
		if err := errors.Join(e.lock(ctx), add(ctx, tx, "a", 1), e.note(ctx, "it")); err != nil {
			return err
		}
		return end()
	}
}

// scope is a transaction of another library, as far as latchkey can tell.
func (e *ended) scope(ctx context.Context, end func() error) error {
	dialect := map[string]latchkey.Dialect{
		"postgres": latchkey.PostgreSQL, "mariadb": latchkey.MySQL, "sqlite": latchkey.SQLite,
	}[e.kind]
	return latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
		tx, err := e.db.BeginTxx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		if err := e.lock(ctx); err != nil {
			return err
		}
		if err := s.Run(ctx, dialect, latchkey.FenceOn(tx), func() error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET n = n + 1 WHERE id = 'a'")
			if err := errors.Join(err, e.note(ctx, "it")); err != nil {
				return err
			}
			return end()
		}); err != nil {
			return err
		}
		return tx.Commit()
	}, latchkey.ScopeIsolation(sql.LevelReadCommitted))
}

// paths are the ways into a transaction.
var paths = map[string]func(ctx context.Context, e *ended, end func() error) error{
	"InTx": func(ctx context.Context, e *ended, end func() error) error { return e.m.InTx(ctx, e.step(end)) },
	"Transactional": func(ctx context.Context, e *ended, end func() error) error {
		return latchkey.Action(e.locks.WithLock("k:#{param}", latchkey.Transactional(e.m)), func(ctx context.Context, _ string) error {
			tx, _ := latchkey.TxFrom(ctx)
			return e.step(end)(ctx, tx)
		})(ctx, "a")
	},
	"joined": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error { return e.m.InTx(ctx, e.step(end)) })
	},
	"savepoint": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error {
			return e.m.InTx(ctx, e.step(end), latchkey.Savepoint())
		})
	},
	"new transaction": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, _ *latchkey.Tx) error {
			return e.m.InTx(ctx, e.step(end), latchkey.NewTransaction())
		})
	},
	"InScope": func(ctx context.Context, e *ended, end func() error) error { return e.scope(ctx, end) },
	"BeforeCommit hook": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
			return errors.Join(e.step(func() error { return nil })(ctx, tx),
				latchkey.BeforeCommit(ctx, func(context.Context) error { return end() }))
		})
	},
	"AfterCommit hook": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
			return errors.Join(latchkey.AfterCommit(ctx, func(context.Context) error { return end() }),
				e.step(func() error { return nil })(ctx, tx))
		})
	},
	"AfterRollback hook": func(ctx context.Context, e *ended, end func() error) error {
		return e.m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
			return errors.Join(latchkey.AfterRollback(ctx, func(context.Context) error { return end() }),
				e.step(func() error { return errOwn })(ctx, tx))
		})
	},
}

func TestHoweverAFunctionEndsItsLockIsLetGo(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for path, run := range paths {
			for ending, end := range endings {
				t.Run(path+" "+ending, func(t *testing.T) {
					db := d.open(t, 0)
					e := &ended{db: db, kind: d.kind, locks: latchkey.New(memstore.New())}
					e.m = latchkey.NewTxManager(db, latchkey.Fenced())
					defer e.locks.Close()
					before := value(t, db, "a")
					reached := false
					recovered, err := inGoroutine(func() error {
						return run(t.Context(), e, func() error { reached = true; return end() })
					})
					if !reached {
						t.Fatalf("void: it ended before, with %v", err)
					}

					inHook := strings.HasSuffix(path, "hook") // whose panic is nobody else's
					if (recovered == any(errOwn)) != (ending == "panic" && !inHook) {
						t.Errorf("recovered %v", recovered)
					}
					committed, log := 0, "it rolled back"
					if path == "AfterCommit hook" {
						committed, log = 1, "it committed"
					}
					if got := value(t, db, "a") - before; got != committed {
						t.Errorf("%d writes are there, want %d; the call answered %v", got, committed, err)
					}
					if len(e.hooks) != 1 || e.hooks[0] != log {
						t.Errorf("hooks %q, want %q", e.hooks, log)
					}
					if _, err := e.locks.Acquire(t.Context(), "k:a"); err != nil {
						t.Errorf("still locked: %v", err)
					}
					if n := db.Stats().InUse; n != 0 {
						t.Errorf("%d connections are in use", n)
					}
				})
			}
		}
	})
}

// TestEndOfTheGoroutineInAHandWrittenTransactionCommits is the control: what most code does at the end of a transaction.
func TestEndOfTheGoroutineInAHandWrittenTransactionCommits(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for _, ending := range []string{"Goexit", "FailNow"} {
			db := d.open(t, 0)
			before := value(t, db, "a")
			_, _ = inGoroutine(func() (err error) {
				tx := db.MustBegin()
				defer func() {
					if p := recover(); p != nil || err != nil {
						_ = tx.Rollback()
						return
					}
					_ = tx.Commit()
				}()
				tx.MustExec("UPDATE account SET n = n + 1 WHERE id = 'a'")
				return endings[ending]()
			})
			if value(t, db, "a") != before+1 {
				t.Errorf("%s: not committed, so the tests of endings show nothing", ending)
			}
		}
	})
}

// A part that panics behind a savepoint is undone alone if somebody recovers: the transaction goes on and is committed.
func TestRecoveredPanicBehindASavepointIsUndoneAlone(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db)
		err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			func() {
				defer func() { _ = recover() }()
				_ = m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
					if err := add(ctx, tx, "a", 10); err != nil {
						t.Error(err)
					}
					panic(errOwn)
				}, latchkey.Savepoint())
			}()
			return add(ctx, tx, "a", 1)
		})
		if n := value(t, db, "a"); err != nil || n != 1 {
			t.Errorf("got %v and the account has %d, want 1", err, n)
		}
	})
}
