//go:build unix

package transactions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

// Whatever statement of the transaction the server leaves without an answer: the call ends, in bounded time, with an answer
// that is true, and the lock is let go.
func TestStatementOfTheTransactionThatIsNotAnswered(t *testing.T) {
	words := map[string]map[string]string{
		"postgres": {"BEGIN": "begin", "fence": "INTO latchkey_fence", "ROLLBACK": "rollback"},
		"mariadb":  {"BEGIN": "SAVEPOINT latchkey_begin", "fence": "UPDATE latchkey_fence", "ROLLBACK": "ROLLBACK"},
	}
	for _, kind := range []string{"postgres", "mariadb"} {
		for what, tt := range map[string]struct {
			ran  int
			want func(error) bool
		}{
			"BEGIN": {0, func(err error) bool {
				return err != nil && strings.Contains(err.Error(), "BEGIN was not answered in time")
			}},
			"fence":    {0, func(err error) bool { return errors.Is(err, latchkey.ErrBusy) }},
			"ROLLBACK": {1, func(err error) bool { return errors.Is(err, errOwn) }},
		} {
			t.Run(kind+", "+what, func(t *testing.T) {
				t.Parallel()
				c := newCuts(t, kind)
				m := latchkey.NewTxManager(c.db, latchkey.Fenced(latchkey.FenceWait(time.Second)), latchkey.ConnTimeout(time.Second))
				locks := latchkey.New(memstore.New())
				defer locks.Close()
				ran := 0
				insert := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
					ran++
					tx, _ := latchkey.TxFrom(ctx)
					_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id)
					return errors.Join(err, errOwn)
				})
				before := c.proxy.Counts().SwallowedReplies
				c.proxy.SwallowReplies(testenv.Containing(words[kind][what]), testenv.Times(1))
				start := time.Now()
				err := insert(t.Context(), "x")
				took := time.Since(start)
				c.proxy.Heal()
				if c.proxy.Counts().SwallowedReplies == before {
					t.Fatal("nothing was left without an answer: this run shows nothing")
				}
				if !tt.want(err) || errors.Is(err, latchkey.ErrOutcomeUnknown) || ran != tt.ran {
					t.Errorf("got %v, the function ran %d times, want %d", err, ran, tt.ran)
				}
				if took > 15*time.Second {
					t.Errorf("took %v", took)
				}
				if c.has(t, "x") {
					t.Error("it was committed")
				}
				if le, err := locks.Acquire(t.Context(), "k"); err != nil {
					t.Errorf("still locked: %v", err)
				} else {
					_ = le.Release(t.Context())
				}
				if err := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(context.Context, string) error {
					return nil
				})(t.Context(), ""); err != nil {
					t.Errorf("the next one: %v", err)
				}
			})
		}
	}
}

// When a lock is let go after a rollback, another session finds nothing left of the transaction: its rows are free. The
// control lets go before, by hand. ROLLBACK takes its time on the way, so that the order shows.
func TestRollbackIsOverBeforeTheLockIsLetGo(t *testing.T) {
	words := map[string]string{"postgres": "rollback", "mariadb": "ROLLBACK"}
	for _, kind := range []string{"postgres", "mariadb"} {
		for _, byHand := range []bool{false, true} {
			name := kind
			if byHand {
				name += ", control by hand"
			}
			t.Run(name, func(t *testing.T) {
				c := newCuts(t, kind)
				m := latchkey.NewTxManager(c.db, latchkey.Fenced())
				var free, held int
				locks := latchkey.New(memstore.New(), latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
					if e.Kind != latchkey.EventReleased {
						return
					}
					var n int
					if err := c.direct.Get(&n, "SELECT n FROM account WHERE id = 'a' FOR UPDATE NOWAIT"); err == nil {
						free++
					} else {
						held++
					}
				})))
				defer locks.Close()
				before := c.proxy.Counts().Delayed
				c.proxy.DelayRequests(100*time.Millisecond, testenv.Containing(words[kind]))
				var err error
				if byHand {
					err = func() error {
						tx, err := c.db.BeginTxx(t.Context(), nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						return latchkey.Action(locks.WithLock("k"), func(ctx context.Context, _ string) error {
							_, err := tx.ExecContext(ctx, "UPDATE account SET n = n + 1 WHERE id = 'a'")
							return errors.Join(err, errOwn)
						})(t.Context(), "")
					}()
				} else {
					err = latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
						tx, _ := latchkey.TxFrom(ctx)
						return errors.Join(add(ctx, tx, "a", 1), errOwn)
					})(t.Context(), "")
				}
				if !errors.Is(err, errOwn) || c.proxy.Counts().Delayed == before {
					t.Fatalf("got %v; ROLLBACK was held up: %v", err, c.proxy.Counts().Delayed > before)
				}
				if want := map[bool]int{false: 1, true: 0}[byHand]; free != want || held != 1-want {
					t.Errorf("when the lock was let go the row was free %d times and held %d times", free, held)
				}
			})
		}
	}
}
