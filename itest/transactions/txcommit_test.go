//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// COMMIT that the server refuses: rolled back, released, and no doubt about it, whatever the driver calls it.
func TestCommitRefused(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			d := newDatabase(t, "postgres")
			d.driver = driver
			db := d.open(t, 0)
			db.MustExec("CREATE TABLE once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
			m := latchkey.NewTxManager(db)
			locks := latchkey.New(memstore.New())
			for name, f := range map[string]func(ctx context.Context, tx *latchkey.Tx) error{
				"constraint at the end": func(ctx context.Context, tx *latchkey.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO once VALUES (1), (1)")
					return err
				},
				// An aborted transaction answers COMMIT with ROLLBACK and without an error.
				"error that the function swallowed": func(ctx context.Context, tx *latchkey.Tx) error {
					if err := add(ctx, tx, "a", 1); err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, "SELECT no_such_column"); err == nil {
						t.Error("no error")
					}
					return nil
				},
			} {
				t.Run(name, func(t *testing.T) {
					var outcome latchkey.Outcome
					err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
						tx, _ := latchkey.TxFrom(ctx)
						return errors.Join(f(ctx, tx),
							latchkey.AfterCompletion(ctx, func(_ context.Context, o latchkey.Outcome) { outcome = o }))
					})(t.Context(), "")
					if err == nil || errors.Is(err, latchkey.ErrOutcomeUnknown) || outcome != latchkey.OutcomeRolledBack {
						t.Errorf("got %v, outcome %v; want an error and rolled back", err, outcome)
					}
					if n := value(t, db, "a"); n != 0 {
						t.Errorf("committed %d", n)
					}
					if le, err := locks.Acquire(t.Context(), "k"); err != nil {
						t.Errorf("still locked: %v", err)
					} else {
						_ = le.Release(t.Context())
					}
				})
			}
		})
	}
}

// After a deadlock MySQL has rolled back all and commits each further statement on its own.
func TestDeadlockThatTheFunctionSwallowsCommitsNoHalf(t *testing.T) {
	d := newDatabase(t, "mariadb")
	db := d.open(t, 0)
	m := latchkey.NewTxManager(db)
	db.MustExec("CREATE TABLE filler (n int)")
	locked, go2 := make(chan struct{}), make(chan struct{})
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
			<-go2
			_, err = tx.Exec("UPDATE account SET n = n + 1000 WHERE id = 'a'")
			return err
		}()
	}()
	<-locked
	deadlocks := 0
	err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
		if err := add(ctx, tx, "a", 1); err != nil {
			return err
		}
		close(go2)
		d.awaitBlocked(t)
		if err := add(ctx, tx, "b", 1); err != nil {
			deadlocks++ // swallowed
		}
		if err := add(ctx, tx, "a", 100); !errors.Is(err, latchkey.ErrRollbackOnly) {
			t.Errorf("a statement after the deadlock: %v, want ErrRollbackOnly", err)
		}
		return nil
	})
	if o := <-other; o != nil {
		t.Fatalf("the other transaction: %v", o)
	}
	if deadlocks != 1 {
		t.Fatal("there was no deadlock: this run shows nothing")
	}
	if !errors.Is(err, latchkey.ErrRollbackOnly) || value(t, db, "a") != 0 {
		t.Errorf("got %v and the account has %d; want ErrRollbackOnly and 0", err, value(t, db, "a"))
	}
}

func TestCommitBusyInSQLiteRollsBack(t *testing.T) {
	d := newDatabase(t, "sqlite")
	d.url = "file:" + filepath.Join(t.TempDir(), "journal.db") + "?_pragma=journal_mode(DELETE)"
	db := d.open(t, 0)
	db.MustExec("CREATE TABLE account (id varchar(20) PRIMARY KEY, n bigint NOT NULL)")
	db.MustExec("INSERT INTO account VALUES ('a', 0), ('b', 0)")
	m := latchkey.NewTxManager(db)
	rows, err := db.Query("SELECT id FROM account") // a reader keeps the writer from committing
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	err = m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error { return add(ctx, tx, "a", 1) })
	if err2 := errors.Join(rows.Close(), rows.Err()); err2 != nil {
		t.Fatal(err2)
	}
	if err == nil || errors.Is(err, latchkey.ErrOutcomeUnknown) {
		t.Errorf("got %v, want an error that leaves no doubt", err)
	}
	if err := m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error { return add(ctx, tx, "a", 10) }); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if n := value(t, db, "a"); n != 10 {
		t.Errorf("the account has %d, want 10", n)
	}
}

// COMMIT is sent only under a lease that lasts for it. The renewals are counted, since one that the watchdog makes meanwhile
// would hide that nobody has looked.
func TestLeaseIsCheckedBeforeCommit(t *testing.T) {
	const lease, commit = 1500 * time.Millisecond, 1200 * time.Millisecond
	const use = 360 * time.Millisecond // leaves too little for COMMIT; the watchdog renews after 500 ms
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		for name, tt := range map[string]struct {
			hold  latchkey.HoldOption
			spoil func(s *watched)
			asked int64 // renewals for COMMIT
			lost  bool
		}{
			"control: enough is left": {latchkey.RenewedLease(lease), func(*watched) {}, 0, false},
			"renewed if need be":      {latchkey.RenewedLease(lease), func(*watched) { <-time.After(use) }, 1, false},
			"too little left of a fixed one": {latchkey.LeaseFor(lease), func(*watched) {
				<-time.After(use)
			}, 0, true},
			"the store has forgotten it": {latchkey.RenewedLease(lease), func(s *watched) {
				s.forget()
				<-time.After(use)
			}, 1, true},
		} {
			t.Run(name, func(t *testing.T) {
				m := latchkey.NewTxManager(db, latchkey.CommitTimeout(commit))
				store := &watched{Store: memstore.New()}
				locks := latchkey.New(store, tt.hold)
				defer locks.Close()
				for range 5 {
					before := value(t, db, "a")
					var early, at int64
					err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
						at = store.renewed.Load()
						tx, _ := latchkey.TxFrom(ctx)
						err := add(ctx, tx, "a", 1)
						tt.spoil(store)
						early = store.renewed.Load() - at
						return err
					})(t.Context(), "")
					if early > 0 {
						continue // the watchdog came first, on a busy machine: again
					}
					if errors.Is(err, latchkey.ErrLeaseLost) != tt.lost || !tt.lost && err != nil {
						t.Errorf("got %v; want lost: %v", err, tt.lost)
					}
					if changed := value(t, db, "a") != before; changed == tt.lost {
						t.Errorf("committed: %v", changed)
					}
					if asked := store.renewed.Load() - at; asked != tt.asked {
						t.Errorf("the lease was renewed %d times for COMMIT, want %d", asked, tt.asked)
					}
					return
				}
				t.Error("the watchdog came first each time: this run shows nothing")
			})
		}
	})
}

// watched counts renewals and remembers the last owner, so that a test can let its lock go.
type watched struct {
	*memstore.Store

	renewed atomic.Int64
	owner   atomic.Pointer[string]
}

func (w *watched) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		switch op.Kind {
		case latchkey.OpAcquire:
			owner := op.Owner
			w.owner.Store(&owner)
		case latchkey.OpRenew:
			w.renewed.Add(1)
		}
	}
	w.Store.Do(ctx, ops)
}

// forget lets the lock "k" go behind its holder's back.
func (w *watched) forget() {
	w.Store.Do(context.Background(), []*latchkey.Op{{Kind: latchkey.OpRelease, Key: "latchkey:k", Owner: *w.owner.Load()}})
}

// lib/pq says the same about a connection that broke before and after COMMIT.
func TestLibPQCutAroundCommit(t *testing.T) {
	c := newCuts(t, "postgres")
	_, port, _ := strings.Cut(c.proxy.Addr(), ":")
	var n int
	if _, err := fmt.Sscan(port, &n); err != nil {
		t.Fatal(err)
	}
	db := openURL(t, "postgres", c.d.server.URLAt(n, c.d.name), 4)
	m := latchkey.NewTxManager(db, latchkey.Fenced())
	locks := latchkey.New(memstore.New())
	insert := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
		tx, _ := latchkey.TxFrom(ctx)
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES ($1)", id)
		return err
	})
	for _, how := range []string{cutBefore, cutReply} {
		for i := range 20 {
			id := fmt.Sprintf("%s %d", how, i)
			c.d.kind = "mariadb" // lib/pq writes COMMIT in capitals too
			c.arm(how)
			err := insert(t.Context(), id)
			c.proxy.Heal()
			if has := c.has(t, id); has != (err == nil) || has != (how == cutReply) {
				t.Errorf("%s: answered %v, in the ledger: %v", id, err, has)
			}
		}
	}
	if cut := c.proxy.Counts().Cut; cut < 40 {
		t.Errorf("only %d connections were cut", cut)
	}
}
