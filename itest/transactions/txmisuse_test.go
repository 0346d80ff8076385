//go:build unix

package transactions

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// bounded fails a test that took suspiciously long for an error that is known at once.
func bounded(t *testing.T, limit time.Duration) (check func()) {
	t.Helper()
	start := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(start); took > limit {
			t.Errorf("took %v, want at most %v", took, limit)
		}
	}
}

// A lock that is taken inside an open transaction, or around one of another library, needs the table as well.
func TestMissingFenceTableInsideATransaction(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		db.MustExec("DROP TABLE latchkey_fence")
		for name, run := range map[string]func(ctx context.Context, e *ended) error{
			"hook": func(ctx context.Context, e *ended) error {
				return e.m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error { return e.step(func() error { return nil })(ctx, tx) })
			},
			"InScope": func(ctx context.Context, e *ended) error { return e.scope(ctx, func() error { return nil }) },
		} {
			t.Run(name, func(t *testing.T) {
				defer bounded(t, 20*time.Second)()
				e := &ended{db: db, kind: d.kind, m: latchkey.NewTxManager(db, latchkey.Fenced()), locks: latchkey.New(memstore.New())}
				defer e.locks.Close()
				err := run(t.Context(), e)
				if err == nil || !strings.Contains(err.Error(), "FenceSchema(") || errors.Is(err, latchkey.ErrFenced) ||
					errors.Is(err, latchkey.ErrOutcomeUnknown) {
					t.Errorf("got %v, want what to do about the table", err)
				}
				if n := value(t, db, "a"); n != 0 {
					t.Errorf("written: %d", n)
				}
				if _, err := e.locks.Acquire(t.Context(), "k:a"); err != nil {
					t.Errorf("still locked: %v", err)
				}
			})
		}
	})
}

func TestReadOnlyDatabaseRefusesTheWrite(t *testing.T) {
	readOnly := regexp.MustCompile(`(?i)read.?only`)
	databases(t, func(t *testing.T, d database) {
		normal := d.open(t, 0)
		switch d.kind {
		case "postgres":
			d.url += "&default_transaction_read_only=on"
		case "mariadb":
			d.url += "&tx_read_only=1"
		case "sqlite":
			d.url += "&_pragma=query_only(1)"
		}
		db := d.open(t, 0)
		for path, run := range paths {
			for _, fenced := range []bool{false, true} {
				if strings.HasSuffix(path, "hook") {
					continue // says nothing else
				}
				opts := []latchkey.TxManagerOption{latchkey.AllowStaleSnapshot()}
				if fenced {
					opts = append(opts, latchkey.Fenced())
				}
				e := &ended{db: db, kind: d.kind, m: latchkey.NewTxManager(db, opts...), locks: latchkey.New(memstore.New())}
				check := bounded(t, 20*time.Second)
				err := run(t.Context(), e, func() error { t.Error("the write was accepted"); return nil })
				check()
				if err == nil || !readOnly.MatchString(err.Error()) || errors.Is(err, latchkey.ErrOutcomeUnknown) {
					t.Errorf("%s, fenced %v: got %v, want the database's own words", path, fenced, err)
				}
				if _, err := e.locks.Acquire(t.Context(), "k:a"); err != nil {
					t.Errorf("%s: still locked: %v", path, err)
				}
				e.locks.Close()
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%s: %d connections are in use", path, n)
				}
			}
		}
		if n := value(t, normal, "a"); n != 0 {
			t.Errorf("written: %d", n)
		}
	})
}

func TestPoolThatOthersHaveExhausted(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 2)
		for range 2 {
			conn, err := db.Connx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		m := latchkey.NewTxManager(db, latchkey.ConnTimeout(100*time.Millisecond))
		locks := latchkey.New(memstore.New())
		defer locks.Close()
		work := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(context.Context, string) error {
			t.Error("the function ran without a connection")
			return nil
		})
		defer bounded(t, 10*time.Second)()
		if err := work(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "2 of at most 2 are in use") {
			t.Errorf("got %v, want the state of the pool", err)
		}
		patient := latchkey.NewTxManager(db, latchkey.ConnTimeout(time.Hour))
		why := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
		defer cancel()
		err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(patient)), func(context.Context, string) error {
			t.Error("the function ran without a connection")
			return nil
		})(ctx, "")
		if !errors.Is(err, why) {
			t.Errorf("got %v, want the cause of the caller's context", err)
		}
		if _, err := locks.Acquire(t.Context(), "k"); err != nil {
			t.Errorf("still locked: %v", err)
		}
		if n := db.Stats().InUse; n != 2 {
			t.Errorf("%d connections are in use, want the two that were before", n)
		}
	})
}

func TestContextThatHasEndedBeginsNothing(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 0)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for path, run := range paths {
		e := &ended{db: db, kind: d.kind, m: latchkey.NewTxManager(db), locks: latchkey.New(memstore.New())}
		err := run(ctx, e, func() error { t.Errorf("%s: the function ran", path); return nil })
		if !errors.Is(err, why) {
			t.Errorf("%s: got %v, want the cause", path, err)
		}
		if _, err := e.locks.Acquire(t.Context(), "k:a"); err != nil {
			t.Errorf("%s: still locked: %v", path, err)
		}
		if n := db.Stats().OpenConnections - db.Stats().Idle; n != 0 {
			t.Errorf("%s: %d connections are in use", path, n)
		}
		e.locks.Close()
	}
}

func TestScopeKeptAndUsedAfterwards(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	var kept *latchkey.Scope
	var keptCtx context.Context
	if err := latchkey.InScope(t.Context(), func(ctx context.Context, s *latchkey.Scope) error {
		kept, keptCtx = s, ctx
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	exec := func(context.Context, string, ...any) (int64, error) {
		t.Error("a statement was sent for a scope that is over")
		return 0, nil
	}
	ctx := t.Context()
	for name, err := range map[string]error{
		"Fence":        kept.Fence(ctx, latchkey.PostgreSQL, exec),
		"BeforeCommit": kept.BeforeCommit(ctx),
		"Run":          kept.Run(ctx, latchkey.PostgreSQL, exec, func() error { t.Error("the work ran"); return nil }),
		"AfterCommit":  latchkey.AfterCommit(keptCtx, func(context.Context) error { return nil }),
		"Acquire":      func() error { _, err := locks.Acquire(keptCtx, "k"); return err }(),
	} {
		if !errors.Is(err, latchkey.ErrTxFinished) {
			t.Errorf("%s: %v, want ErrTxFinished", name, err)
		}
	}
	if _, err := locks.Acquire(ctx, "k"); err != nil {
		t.Errorf("locked: %v", err)
	}
}

// A function that returns while a goroutine of its own still runs a statement is not committed, and not waited for too long.
func TestStatementThatOutlivesItsFunctionIsNotCommitted(t *testing.T) {
	d := newDatabase(t, "postgres")
	db := d.open(t, 0)
	m := latchkey.NewTxManager(db)
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	sleeping := sqlx.MustConnect(d.driver, d.url)
	defer sleeping.Close()
	done := make(chan error, 1)
	check := bounded(t, 20*time.Second)
	err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
		tx, _ := latchkey.TxFrom(ctx)
		if err := add(ctx, tx, "a", 1); err != nil {
			return err
		}
		go func() {
			_, err := tx.ExecContext(context.Background(), "SELECT pg_sleep(60)") // not the function's context
			done <- err
		}()
		for n := 0; n == 0; {
			if err := sleeping.Get(&n, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%'"); err != nil {
				return err
			}
		}
		return nil
	})(t.Context(), "")
	check()
	if err == nil || !strings.Contains(err.Error(), "wait for goroutines that use the handle") {
		t.Errorf("got %v", err)
	}
	if _, err := locks.Acquire(t.Context(), "k"); err != nil {
		t.Errorf("still locked: %v", err)
	}
	// The connection can't be closed while it is busy.
	sleeping.MustExec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%'")
	<-done
	for end := time.Now().Add(20 * time.Second); db.Stats().InUse != 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	if n := value(t, db, "a"); n != 0 {
		t.Errorf("committed %d", n)
	}
}
