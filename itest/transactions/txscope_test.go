//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestInScopeOfPgx(t *testing.T) {
	d := newDatabase(t, "postgres")
	pool, err := pgxpool.New(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := d.open(t, 0)
	locks := latchkey.New(memstore.New())
	busy := func(context.Context) bool {
		le, err := locks.Acquire(context.Background(), "k:a")
		if err == nil {
			_ = le.Release(context.Background())
		}
		return errors.Is(err, latchkey.ErrBusy)
	}
	run := func(ctx context.Context, j *journal, f func(ctx context.Context, tx pgx.Tx) error) error {
		return latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if j != nil {
					j.watch(ctx, t, "scope", busy)
				}
				return s.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error { return f(ctx, tx) })
			})
		}, latchkey.ScopeIsolation(sql.LevelReadCommitted))
	}
	lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
	update := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE account SET n = n + 1 WHERE id = 'a'")
		return err
	}

	t.Run("lock inside is carried to the end", func(t *testing.T) {
		for _, end := range []error{nil, errOwn} {
			var j journal
			err := run(t.Context(), &j, func(ctx context.Context, tx pgx.Tx) error {
				return errors.Join(lock(ctx, "a"), update(ctx, tx), end)
			})
			if !errors.Is(err, end) || end == nil && err != nil {
				t.Errorf("got %v, want %v", err, end)
			}
			if busy(t.Context()) {
				t.Error("still locked")
			}
			if end == nil {
				j.want(t, "scope before commit, locked: true", "scope committed, locked: true", "scope over: committed, locked: true")
			} else {
				j.want(t, "scope rolled back, locked: true", "scope over: rolled back, locked: true")
			}
		}
		if n := value(t, db, "a"); n != 1 {
			t.Errorf("changed by %d, want 1", n)
		}
	})
	t.Run("fenced off", func(t *testing.T) {
		old, err := latchkey.New(newMinter(10)).Acquire(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		young, err := latchkey.New(newMinter(11)).Acquire(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if err := run(old.Context(), nil, update); err != nil {
			t.Error(err)
		}
		if err := run(young.Context(), nil, update); err != nil {
			t.Error(err)
		}
		if err := run(old.Context(), nil, update); !errors.Is(err, latchkey.ErrFenced) {
			t.Errorf("got %v, want ErrFenced", err)
		}
		_, _ = old.Release(t.Context()), young.Release(t.Context())
		if n := value(t, db, "a"); n != 3 {
			t.Errorf("changed to %d, want 3", n)
		}
	})
	t.Run("isolation not told", func(t *testing.T) {
		err := latchkey.InScope(t.Context(), func(ctx context.Context, _ *latchkey.Scope) error { return lock(ctx, "a") })
		if err == nil || !strings.Contains(err.Error(), "ScopeIsolation(") {
			t.Errorf("got %v", err)
		}
		err = latchkey.InScope(t.Context(), func(ctx context.Context, _ *latchkey.Scope) error { return lock(ctx, "a") },
			latchkey.ScopeIsolation(sql.LevelRepeatableRead))
		if err == nil || !strings.Contains(err.Error(), "AllowStaleSnapshot()") {
			t.Errorf("got %v", err)
		}
		if err = latchkey.InScope(t.Context(), func(ctx context.Context, _ *latchkey.Scope) error { return lock(ctx, "a") },
			latchkey.AllowStaleSnapshot()); err != nil {
			t.Error(err)
		}
	})
	t.Run("connection lost after BeforeCommit", func(t *testing.T) {
		err := latchkey.InScope(t.Context(), func(ctx context.Context, s *latchkey.Scope) error {
			if err := errors.Join(lock(ctx, "u"), s.BeforeCommit(ctx)); err != nil {
				return err
			}
			return errors.New("connection reset by peer")
		}, latchkey.ScopeIsolation(sql.LevelReadCommitted))
		if !errors.Is(err, latchkey.ErrOutcomeUnknown) {
			t.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		if _, err := locks.Acquire(t.Context(), "k:u"); !errors.Is(err, latchkey.ErrBusy) {
			t.Errorf("the lock was let go: %v", err)
		}
	})
	t.Run("a scope that does not end", func(t *testing.T) {
		err := latchkey.InScope(t.Context(), func(ctx context.Context, _ *latchkey.Scope) error {
			if err := lock(ctx, "m"); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, latchkey.ScopeIsolation(sql.LevelReadCommitted), latchkey.ScopeMaxHold(30*time.Millisecond))
		if !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
	})
	t.Run("panic", func(t *testing.T) {
		recovered, _ := inGoroutine(func() error {
			return run(t.Context(), nil, func(ctx context.Context, _ pgx.Tx) error {
				if err := lock(ctx, "a"); err != nil {
					return err
				}
				panic(errOwn)
			})
		})
		if recovered != any(errOwn) || busy(t.Context()) {
			t.Errorf("recovered %v, locked: %v", recovered, busy(t.Context()))
		}
	})
}
