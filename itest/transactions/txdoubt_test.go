//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

// cuts is a database behind a proxy that cuts connections around COMMIT.
type cuts struct {
	d      database
	proxy  *testenv.Proxy
	direct *sqlx.DB
	db     *sqlx.DB      // through the proxy
	looked *atomic.Int64 // look-ups that the server was asked for, since arm
}

const (
	cutBefore  = "before it is forwarded"
	cutBetween = "forwarded but not awaited"
	cutAfter   = "after the reply"
	cutReply   = "reply lost"
)

// queryTexts has pgx send the text of each statement, which the proxy goes by, and not the name of one sent before.
const queryTexts = "&default_query_exec_mode=exec"

func newCuts(t *testing.T, kind string) cuts {
	t.Helper()
	c := cuts{d: newDatabase(t, kind), looked: new(atomic.Int64)}
	c.direct = c.d.open(t, 0)
	c.direct.MustExec("CREATE TABLE ledger (id varchar(60) PRIMARY KEY)")
	c.proxy = testenv.NewProxy(t, c.d.server.Addr())
	_, port, err := net.SplitHostPort(c.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	url := c.d.server.URLAt(n, c.d.name)
	if kind == "postgres" {
		url += queryTexts
	}
	c.db = openURL(t, c.d.driver, url, 4)
	return c
}

// arm prepares one cut of the next COMMIT.
func (c cuts) arm(how string) {
	word, lookup := "commit", "SET token = f.token" // pgx
	if c.d.kind == "mariadb" {
		word, lookup = "COMMIT", "FOR UPDATE"
	}
	c.looked.Store(0)
	c.proxy.DelayRequests(0, testenv.Matching(func(request []byte) bool {
		if contains(request, lookup) {
			c.looked.Add(1)
		}
		return false
	}))
	switch how {
	case cutBefore:
		c.proxy.CutRequests(testenv.Containing(word), testenv.Times(1))
	case cutReply:
		c.proxy.CutReplies(testenv.Containing(word), testenv.Times(1))
	case cutBetween:
		c.proxy.DelayRequests(100*time.Microsecond, testenv.Times(1), testenv.Matching(func(request []byte) bool {
			if !contains(request, word) {
				return false
			}
			at := time.Now().Add(time.Duration(rand.IntN(400)) * time.Microsecond)
			go func() {
				for time.Now().Before(at) { // a timer would mostly be later than the answer
					runtime.Gosched()
				}
				c.proxy.Cut()
			}()
			return true
		}))
	}
}

func contains(request []byte, word string) bool {
	for i := 0; i+len(word) <= len(request); i++ {
		if string(request[i:i+len(word)]) == word {
			return true
		}
	}
	return false
}

// answer is what a call said about its ledger row.
type answer struct {
	id  string
	err error
}

func TestConnectionCutAroundCommitNeverGivesAFalseAnswer(t *testing.T) {
	const each = 160
	for _, kind := range []string{"postgres", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			c := newCuts(t, kind)
			m := latchkey.NewTxManager(c.db, latchkey.Fenced())
			locks := latchkey.New(memstore.New())
			var early int
			insert := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id); err != nil {
					return err
				}
				return latchkey.AfterCompletion(ctx, func(context.Context, latchkey.Outcome) {
					if _, err := locks.Acquire(context.Background(), "k"); !errors.Is(err, latchkey.ErrBusy) {
						early++
					}
				})
			})
			for _, how := range []string{cutBefore, cutBetween, cutReply, cutAfter} {
				t.Run(how, func(t *testing.T) {
					before := c.proxy.Counts().Cut
					var answers []answer
					committed, rolledBack, unknown := 0, 0, 0
					found := map[bool]int{} // by look-up, whether it was committed: COMMIT was sent and not answered
					for i := range each {
						id := fmt.Sprintf("%s %d", how, i)
						c.arm(how)
						err := insert(t.Context(), id)
						if how == cutAfter {
							c.proxy.Cut()
						}
						c.proxy.Heal()
						answers = append(answers, answer{id, err})
						if c.looked.Load() > 0 && !errors.Is(err, latchkey.ErrOutcomeUnknown) {
							found[err == nil]++
						}
						switch {
						case err == nil:
							committed++
							if !c.has(t, id) {
								t.Errorf("%s: said to be committed, but the next holder does not find it", id)
							}
						case errors.Is(err, latchkey.ErrOutcomeUnknown):
							unknown++
						default:
							rolledBack++
						}
					}
					for _, a := range answers {
						if errors.Is(a.err, latchkey.ErrOutcomeUnknown) {
							continue
						}
						if has := c.has(t, a.id); has != (a.err == nil) {
							t.Errorf("%s: answered %v, but in the ledger: %v", a.id, a.err, has)
						}
					}
					n := c.proxy.Counts().Cut - before
					t.Logf("%d committed, %d rolled back, %d unknown; %d cuts; COMMIT was unanswered and found to be committed %d times, "+
						"rolled back %d times", committed, rolledBack, unknown, n, found[true], found[false])
					if n < 150 {
						t.Errorf("only %d connections were cut", n)
					}
					if unknown*100 > each {
						t.Errorf("%d of %d are unknown", unknown, each)
					}
					if early > 0 {
						t.Errorf("the lock was let go %d times before the outcome was settled", early)
					}
					unanswered := found[true] + found[false] + unknown
					if (how == cutBefore || how == cutReply) && unanswered != each || how == cutAfter && unanswered != 0 {
						t.Errorf("%d of %d COMMITs were unanswered", unanswered, each)
					}
					if how == cutBetween && (found[true] == 0 || found[false] == 0) {
						t.Error("of the COMMITs without an answer none was committed, or none rolled back: this run shows too little")
					}
					if (how == cutReply || how == cutAfter) && committed != each || how == cutBefore && rolledBack != each {
						t.Errorf("%d committed and %d rolled back of %d", committed, rolledBack, each)
					}
				})
			}
			t.Run("control: an error means rolled back", func(t *testing.T) {
				wrong := 0
				for i := range 50 {
					id := fmt.Sprintf("control %d", i)
					c.arm(cutReply)
					err := func() error {
						tx, err := c.db.Beginx()
						if err != nil {
							return err
						}
						defer tx.Rollback()
						if _, err := tx.Exec(tx.Rebind("INSERT INTO ledger VALUES (?)"), id); err != nil {
							return err
						}
						return tx.Commit()
					}()
					c.proxy.Heal()
					if err != nil && c.has(t, id) {
						wrong++
					}
				}
				if wrong == 0 {
					t.Error("the control gave no false answer: this test shows nothing")
				}
			})
		})
	}
}

func (c cuts) has(t *testing.T, id string) bool {
	t.Helper()
	var n int
	if err := c.direct.Get(&n, c.direct.Rebind("SELECT count(*) FROM ledger WHERE id = ?"), id); err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// Without fencing there is nothing to look up, and "unknown" is the honest answer: the lock is left to expire.
func TestOutcomeUnknownLeavesTheLockToExpire(t *testing.T) {
	const lease = 600 * time.Millisecond
	for _, kind := range []string{"postgres", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			c := newCuts(t, kind)
			m := latchkey.NewTxManager(c.db)
			locks := latchkey.New(memstore.New(), latchkey.RenewedLease(lease))
			var outcomes []latchkey.Outcome
			insert := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id); err != nil {
					return err
				}
				return errors.Join(
					latchkey.AfterCommit(ctx, func(context.Context) error { t.Error("AfterCommit ran"); return nil }),
					latchkey.AfterRollback(ctx, func(context.Context) error { t.Error("AfterRollback ran"); return nil }),
					latchkey.AfterCompletion(ctx, func(_ context.Context, o latchkey.Outcome) { outcomes = append(outcomes, o) }))
			})
			c.arm(cutReply)
			start := time.Now()
			if err := insert(t.Context(), "x"); !errors.Is(err, latchkey.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want ErrOutcomeUnknown", err)
			}
			if len(outcomes) != 1 || outcomes[0] != latchkey.OutcomeUnknown {
				t.Errorf("outcomes %v, want one unknown", outcomes)
			}
			if _, err := locks.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
				t.Errorf("the lock was let go: %v", err)
			}
			le, err := locks.Acquire(t.Context(), "k", latchkey.Wait(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			defer le.Release(t.Context())
			if waited := time.Since(start); waited < lease*9/10 {
				t.Errorf("the next one had the lock after %v, the lease is %v", waited, lease)
			}
		})
	}
}

func TestCommitIsBoundedWhenTheServerDoesNotAnswer(t *testing.T) {
	for _, kind := range []string{"postgres", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			c := newCuts(t, kind)
			m := latchkey.NewTxManager(c.db, latchkey.Fenced(), latchkey.CommitTimeout(300*time.Millisecond))
			locks := latchkey.New(memstore.New())
			insert := latchkey.Action(locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id)
				return err
			})
			word := map[string]string{"postgres": "commit", "mariadb": "COMMIT"}[kind]
			c.proxy.SwallowReplies(testenv.Containing(word), testenv.Times(1))
			start := time.Now()
			if err := insert(t.Context(), "x"); err != nil {
				t.Errorf("got %v; the server has committed and the fence row says so", err)
			}
			if took := time.Since(start); took > 5*time.Second || took < 300*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if !c.has(t, "x") {
				t.Error("not in the ledger")
			}
			c.proxy.Heal()
		})
	}
}

func TestCommitRacedByCancellationIsNeverCalledCancelled(t *testing.T) {
	d := newDatabase(t, "postgres")
	db := d.open(t, 4)
	db.MustExec("CREATE TABLE ledger (id varchar(60) PRIMARY KEY)")
	c := cuts{d: d, direct: db}
	m := latchkey.NewTxManager(db)
	race := func(cancel context.CancelFunc) {
		time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, cancel)
	}
	run := func(name string, tries int, once func(ctx context.Context, cancel context.CancelFunc, id string) error) (wrong, raced, ok, both int) {
		for i := range tries {
			id := fmt.Sprintf("%s %d", name, i)
			ctx, cancel := context.WithCancel(t.Context())
			err := once(ctx, cancel, id)
			if ctx.Err() != nil {
				raced++
				if err == nil {
					both++
				}
			}
			cancel()
			if err == nil {
				ok++
			}
			if has := c.has(t, id); has != (err == nil) {
				wrong++
			}
		}
		return wrong, raced, ok, both
	}
	wrong, raced, ok, both := run("latchkey", 1000, func(ctx context.Context, cancel context.CancelFunc, id string) error {
		return m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
			if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id); err != nil {
				return err
			}
			return latchkey.BeforeCommit(ctx, func(context.Context) error {
				race(cancel)
				return nil
			})
		})
	})
	t.Logf("latchkey: %d false answers, cancelled before the end %d, committed %d, both %d", wrong, raced, ok, both)
	if wrong != 0 {
		t.Errorf("%d false answers", wrong)
	}
	if both < 50 || ok-both < 50 {
		t.Errorf("cancelled and yet committed %d, committed and not cancelled %d of 1000: this run shows too little", both, ok-both)
	}
	wrong, raced, ok, _ = run("control", 300, func(ctx context.Context, cancel context.CancelFunc, id string) error {
		tx, err := db.BeginTxx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id); err != nil {
			return err
		}
		race(cancel)
		return tx.Commit()
	})
	t.Logf("control: %d false answers, cancelled before the end %d, committed %d", wrong, raced, ok)
	if wrong == 0 {
		t.Error("the control gave no false answer: this run shows nothing")
	}
}
