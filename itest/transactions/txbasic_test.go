//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

var errOwn = errors.New("the function's own error")

// journal is what happened, in order.
type journal struct{ lines []string }

func (j *journal) addf(format string, args ...any) {
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("happened:\n\t%s\nwant:\n\t%s", strings.Join(j.lines, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// watch registers one hook of each kind.
func (j *journal) watch(ctx context.Context, t *testing.T, name string, held func(context.Context) bool) {
	t.Helper()
	note := func(what string) func(context.Context) error {
		return func(ctx context.Context) error {
			j.addf("%s %s, locked: %v", name, what, held(ctx))
			return nil
		}
	}
	if err := errors.Join(
		latchkey.BeforeCommit(ctx, note("before commit")), latchkey.AfterCommit(ctx, note("committed")),
		latchkey.AfterRollback(ctx, note("rolled back")),
		latchkey.AfterCompletion(ctx, func(ctx context.Context, o latchkey.Outcome) {
			j.addf("%s over: %v, locked: %v", name, o, held(ctx))
		}),
	); err != nil {
		t.Error(err)
	}
}

func TestCommitThenHooksThenRelease(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for _, fenced := range []bool{false, true} {
			t.Run(fmt.Sprintf("fenced %v", fenced), func(t *testing.T) {
				db := d.open(t, 0)
				var opts []latchkey.TxManagerOption
				if fenced {
					opts = append(opts, latchkey.Fenced())
				}
				m := latchkey.NewTxManager(db, opts...)
				locks := latchkey.New(memstore.New())
				// Whether somebody else is kept out, as the store sees it.
				locked := func(context.Context) bool {
					le, err := locks.Acquire(context.Background(), "k:a")
					if err == nil {
						_ = le.Release(context.Background())
					}
					return errors.Is(err, latchkey.ErrBusy)
				}
				for _, tt := range []struct {
					name  string
					end   func() error
					want  error
					added int
					log   []string
				}{
					{"commit", func() error { return nil }, nil, 1, []string{
						"h before commit, locked: true", "h committed, locked: true", "h over: committed, locked: true",
					}},
					{"error", func() error { return errOwn }, errOwn, 0, []string{
						"h rolled back, locked: true", "h over: rolled back, locked: true",
					}},
					{"panic", func() error { panic(errOwn) }, nil, 0, []string{
						"h rolled back, locked: true", "h over: rolled back, locked: true",
					}},
					{"Goexit", func() error { runtime.Goexit(); return nil }, nil, 0, []string{
						"h rolled back, locked: true", "h over: rolled back, locked: true",
					}},
					{"FailNow", func() error { new(testing.T).FailNow(); return nil }, nil, 0, []string{
						"h rolled back, locked: true", "h over: rolled back, locked: true",
					}},
				} {
					t.Run(tt.name, func(t *testing.T) {
						var j journal
						before := value(t, db, "a")
						f := latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
							j.watch(ctx, t, "h", locked)
							tx, ok := latchkey.TxFrom(ctx)
							if !ok || !locks.Held(ctx, "k:a") {
								t.Error("no transaction or no lock in the function's context")
							}
							if err := add(ctx, tx, id, 1); err != nil {
								t.Error(err)
							}
							return tt.end()
						})
						recovered, returned := inGoroutine(func() error { return f(t.Context(), "a") })
						if tt.name == "panic" {
							if recovered != any(errOwn) {
								t.Errorf("recovered %v, want the function's panic", recovered)
							}
						} else if !errors.Is(returned, tt.want) || tt.want == nil && returned != nil {
							t.Errorf("returned %v, want %v", returned, tt.want)
						}
						if got := value(t, db, "a") - before; got != tt.added {
							t.Errorf("the database has %d changes, want %d", got, tt.added)
						}
						j.want(t, tt.log...)
						if locked(t.Context()) {
							t.Error("still locked after the call")
						}
						if n := db.Stats().InUse; n != 0 {
							t.Errorf("%d connections are in use after the call", n)
						}
					})
				}
			})
		}
	})
}

// inGoroutine runs f where a panic or the end of the goroutine does no harm.
func inGoroutine(f func() error) (recovered any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recovered = recover() }()
		err = f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		panic("stuck")
	}
	return recovered, err
}
