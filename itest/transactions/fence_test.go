//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// minter is a store whose tokens are what a test says, as those of a master that has forgotten, or of another one.
type minter struct {
	*memstore.Store

	next atomic.Int64
}

func newMinter(first int64) *minter {
	m := &minter{Store: memstore.New()}
	m.next.Store(first)
	return m
}

func (m *minter) Do(ctx context.Context, ops []*latchkey.Op) {
	m.Store.Do(ctx, ops)
	for _, op := range ops {
		if op.Err == nil && op.OK && op.Tokens > 0 {
			for {
				next := m.next.Load()
				first := max(next, op.Above+1)
				if m.next.CompareAndSwap(next, first+op.Tokens) {
					op.Token = first
					break
				}
			}
		}
	}
}

// fenceToken reads the row of the only lock.
func fenceToken(t *testing.T, d database) int64 {
	t.Helper()
	var token int64
	if err := d.open(t, 1).Get(&token, "SELECT token FROM latchkey_fence"); err != nil {
		t.Fatal(err)
	}
	return token
}

func TestStoreBehindTheDatabaseMintsAboveIt(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		run := func(locks *latchkey.Locks) error {
			return latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(context.Context, string) error { return nil })(t.Context(), "")
		}
		if err := run(latchkey.New(newMinter(1 << 55))); err != nil { // beyond what a float holds exactly
			t.Fatal(err)
		}
		if err := run(latchkey.New(newMinter(5))); err != nil {
			t.Errorf("a store that has forgotten its counter: %v", err)
		}
		if got := fenceToken(t, d); got != 1<<55+1 {
			t.Errorf("the row has %d, want %d", got, int64(1<<55+1))
		}
	})
}

func TestFenceRowOfAnOlderTransaction(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb", mariadbDetects} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			open := func(wait, idle time.Duration) *latchkey.TxManager {
				return latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced(latchkey.FenceWait(wait), latchkey.FenceIdle(idle)),
					latchkey.Isolation(sql.LevelRepeatableRead))
			}
			// stale holds the row of a lock that another store has given away.
			stale := func(m *latchkey.TxManager, during func() error) error {
				locks := latchkey.New(newMinter(10))
				return latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
					tx, _ := latchkey.TxFrom(ctx)
					return errors.Join(increment(ctx, tx, "a"), during())
				})(t.Context(), "")
			}
			next := func(m *latchkey.TxManager, first int64) (runs int, err error) {
				locks := latchkey.New(newMinter(first))
				err = latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
					runs++
					tx, _ := latchkey.TxFrom(ctx)
					return increment(ctx, tx, "a")
				})(t.Context(), "")
				return runs, err
			}
			t.Run("is waited for, and its commit is no failure", func(t *testing.T) {
				// PostgreSQL answers 40001 here, since the row has changed since the snapshot: begun anew.
				m := open(20*time.Second, time.Minute)
				var wg sync.WaitGroup
				var runs int
				var err error
				if stale := stale(m, func() error {
					wg.Go(func() { runs, err = next(m, 20) })
					d.awaitBlocked(t)
					return nil
				}); stale != nil {
					t.Error(stale)
				}
				wg.Wait()
				if err != nil || runs != 1 {
					t.Errorf("the next one: %v, its function ran %d times", err, runs)
				}
				if got := value(t, d.open(t, 1), "a"); got != 2 {
					t.Errorf("counted %d of 2", got)
				}
			})
			t.Run("is not waited for too long", func(t *testing.T) {
				m := open(time.Second, time.Minute)
				if err := stale(m, func() error {
					start := time.Now()
					_, err := next(m, 30)
					if !errors.Is(err, latchkey.ErrBusy) {
						t.Errorf("got %v, want ErrBusy", err)
					}
					if took := time.Since(start); took > 5*time.Second {
						t.Errorf("took %v", took)
					}
					return errOwn
				}); !errors.Is(err, errOwn) {
					t.Error(err)
				}
			})
			t.Run("is ended by the server when it stands still", func(t *testing.T) {
				m := open(20*time.Second, time.Second)
				before := value(t, d.open(t, 1), "a")
				err := stale(m, func() error {
					start := time.Now()
					if _, err := next(m, 40); err != nil {
						t.Errorf("the next one: %v", err)
					}
					if took := time.Since(start); took > 10*time.Second {
						t.Errorf("took %v", took)
					}
					return nil
				})
				if err == nil {
					t.Error("a transaction that the server has ended was committed")
				}
				if got := value(t, d.open(t, 1), "a"); got != before+1 {
					t.Errorf("counted %d, want %d", got, before+1)
				}
			})
		})
	}
}

// awaitBlocked returns when a transaction waits for another one's row.
func (d database) awaitBlocked(t *testing.T) {
	t.Helper()
	query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	if d.kind == "mariadb" {
		query = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
	}
	db := openURL(t, d.driver, d.url, 1)
	// Not more often: MariaDB looks anew only when nobody has asked for a tenth of a second.
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		var n int
		if err := db.Get(&n, query); err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			return
		}
	}
	t.Error("nobody is blocked")
}

// New rows for different keys at the same moment: MariaDB deadlocks if they are made inside the transactions.
func TestFencesOfDifferentKeysDoNotDeadlock(t *testing.T) {
	d := newDatabase(t, "mariadb")
	db := d.open(t, 0)
	const workers, rounds = 8, 25
	all := func(f func(key string) error) (failed int64) {
		var n atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range rounds {
					if err := f(fmt.Sprintf("k%d-%d", i, w)); err != nil {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	m := latchkey.NewTxManager(db, latchkey.Fenced())
	locks := latchkey.New(memstore.New())
	f := latchkey.Action(locks.WithLock("#{param}", latchkey.Transactional(m)), func(context.Context, string) error { return nil })
	if n := all(func(key string) error {
		err := f(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		return err
	}); n != 0 {
		t.Errorf("%d of %d failed", n, workers*rounds)
	}
	deadlocks := all(func(key string) error {
		tx, err := db.Beginx()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE latchkey_fence SET token = 1 WHERE resource = ?", "control"+key); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT IGNORE INTO latchkey_fence VALUES (?, 1, '', '', now())", "control"+key); err != nil {
			return err
		}
		return tx.Commit()
	})
	if deadlocks == 0 {
		t.Error("the control had no deadlock: this run shows nothing")
	}
}

func TestFenceCountsRowsWithAndWithoutClientFoundRows(t *testing.T) {
	for _, found := range []string{"true", "false"} {
		t.Run(found, func(t *testing.T) {
			d := newDatabase(t, "mariadb")
			d.url += "&clientFoundRows=" + found
			m := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced())
			nothing := func(context.Context, *latchkey.Tx) error { return nil }
			old, err := latchkey.New(newMinter(10)).Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			young, err := latchkey.New(newMinter(11)).Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := m.InTx(old.Context(), nothing); err != nil {
					t.Errorf("the first holder: %v", err)
				}
			}
			for range 2 {
				if err := m.InTx(young.Context(), nothing); err != nil {
					t.Errorf("the newer holder: %v", err)
				}
				if err := m.InTx(old.Context(), nothing); !errors.Is(err, latchkey.ErrFenced) {
					t.Errorf("the older holder: %v, want ErrFenced", err)
				}
			}
			_, _ = old.Release(t.Context()), young.Release(t.Context())
		})
	}
}

func TestFenceOfSeveralKeys(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		locks := latchkey.New(memstore.New(), latchkey.WaitForever())
		f := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(context.Context, []string) error { return nil })
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				keys := []string{"a", "b", "c"}
				if i%2 == 1 {
					slices.Reverse(keys)
				}
				for range 5 {
					if err := f(t.Context(), keys); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var rows []string
		if err := db.Select(&rows, "SELECT resource FROM latchkey_fence ORDER BY resource"); err != nil || len(rows) != 3 {
			t.Errorf("rows %v, %v", rows, err)
		}
	})
}
