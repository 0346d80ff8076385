//go:build unix

package transactions

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// endsWithin fails the test if the call has not returned within a time that is much longer than any bound on the way.
func endsWithin(t *testing.T, limit time.Duration, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatal("it hangs")
		return nil
	}
}

// Rows that were left open are read to their end before COMMIT, and a statement that still runs is waited for: neither for
// ever, while the lock is renewed.
func TestWhatIsLeftOpenDoesNotHangBeforeCommit(t *testing.T) {
	// Larger than all buffers on the way, so that the server is in the middle of it.
	const large = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 900) SELECT i, repeat('x', 60000) FROM c"
	release := make(chan struct{})
	for name, leave := range map[string]func(ctx context.Context, c cuts, tx *latchkey.Tx) error{
		"rows of a server that is silent": func(ctx context.Context, c cuts, tx *latchkey.Tx) error {
			rows, err := tx.QueryContext(ctx, large)
			if err != nil {
				return err
			}
			rows.Next()
			c.proxy.SwallowReplies()
			return rows.Err()
		},
		"statement that still runs": func(ctx context.Context, c cuts, tx *latchkey.Tx) error {
			stmt, err := tx.PrepareContext(ctx, "SELECT get_lock('held by the test', 600)")
			if err != nil {
				return err
			}
			go func() {
				defer close(release)
				_, _ = stmt.ExecContext(context.WithoutCancel(ctx))
			}()
			awaitStatement(t, c.direct, "held by the test")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCuts(t, "mariadb")
			holder := c.direct
			var got int
			conn, err := holder.Connx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.GetContext(t.Context(), &got, "SELECT get_lock('held by the test', 0)"); err != nil || got != 1 {
				t.Fatal(got, err)
			}
			m := latchkey.NewTxManager(c.db)
			locks := latchkey.New(memstore.New())
			defer locks.Close()
			var outcome latchkey.Outcome
			err = endsWithin(t, time.Minute, func() error {
				return latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
					tx, _ := latchkey.TxFrom(ctx)
					return errors.Join(add(ctx, tx, "a", 1), leave(ctx, c, tx), latchkey.AfterCompletion(ctx,
						func(_ context.Context, o latchkey.Outcome) { outcome = o }))
				})(t.Context(), "")
			})
			if err == nil || outcome != latchkey.OutcomeRolledBack {
				t.Errorf("got %v, outcome %v; want an error and rolled back", err, outcome)
			}
			if _, err := locks.Acquire(t.Context(), "k"); err != nil {
				t.Errorf("still locked: %v", err)
			}
			c.proxy.Heal()
			if err := conn.GetContext(t.Context(), &got, "SELECT release_lock('held by the test')"); err != nil {
				t.Error(err)
			}
			if name == "statement that still runs" {
				<-release
			}
			if n := value(t, c.direct, "a"); n != 0 {
				t.Errorf("committed %d", n)
			}
		})
	}
	// The control: where the server answers, what is left open is closed and the transaction committed.
	c := newCuts(t, "mariadb")
	err := latchkey.NewTxManager(c.db).InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
		err := add(ctx, tx, "a", 1)
		rows, err2 := tx.QueryContext(ctx, large)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		rows.Next()
		return rows.Err()
	})
	if n := value(t, c.direct, "a"); err != nil || n != 1 {
		t.Errorf("rows of a server that answers: got %v, committed %d", err, n)
	}
}

// awaitStatement waits until the server runs a statement with the text.
func awaitStatement(t *testing.T, db *sqlx.DB, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		var n int
		if err := db.Get(&n, "SELECT count(*) FROM information_schema.processlist WHERE id <> connection_id() AND state = 'User lock' AND info LIKE ?",
			"%"+text+"%"); err != nil || n > 0 {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("it does not run")
}
