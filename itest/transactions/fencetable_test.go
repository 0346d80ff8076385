//go:build unix

package transactions

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestFenceTable(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t, 0)
		db.MustExec("DROP TABLE latchkey_fence")
		m := latchkey.NewTxManager(db, latchkey.Fenced())
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if err := m.EnsureFenceTable(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		locks := latchkey.New(memstore.New())
		f := latchkey.Action(locks.WithLock("#{param}", latchkey.Transactional(m)), func(context.Context, string) error { return nil })
		for _, key := range []string{"old", "Old", "new", "ümlaut"} { // by bytes: "old" and "Old" are two
			if err := f(t.Context(), key); err != nil {
				t.Error(err)
			}
		}
		if _, err := m.PruneFence(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "at least 1h") {
			t.Errorf("a prune that would let stale holders in: %v", err)
		}
		past := map[string]string{
			"postgres": "now() - interval '3 hours'", "mariadb": "utc_timestamp(6) - interval 3 hour", "sqlite": "strftime('%s', 'now') - 10800",
		}[d.kind]
		db.MustExec("UPDATE latchkey_fence SET updated_at = " + past + " WHERE resource = 'latchkey:old'")
		if n, err := m.PruneFence(t.Context(), 2*time.Hour); n != 1 || err != nil {
			t.Errorf("pruned %d, %v; want 1", n, err)
		}
		if err := f(t.Context(), "old"); err != nil {
			t.Errorf("after the row was pruned: %v", err)
		}
	})
}

// The database mints the token when the lock was taken; a holder that is past its fence is waited for, one that is not is
// fenced off.
func TestTokensOfTheDatabase(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		m := latchkey.NewTxManager(d.open(t, 0), latchkey.Fenced(latchkey.DatabaseTokens()))
		nothing := func(context.Context, *latchkey.Tx) error { return nil }
		old, err := latchkey.New(memstore.New()).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.InTx(old.Context(), nothing); err != nil {
				t.Errorf("the first holder: %v", err)
			}
		}
		before := fenceToken(t, d)
		young, err := latchkey.New(memstore.New()).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.InTx(young.Context(), nothing); err != nil {
			t.Errorf("the newer holder: %v", err)
		}
		if after := fenceToken(t, d); after <= before {
			t.Errorf("the token went from %d to %d", before, after)
		}
		if err := m.InTx(old.Context(), nothing); !errors.Is(err, latchkey.ErrFenced) {
			t.Errorf("the older holder: %v, want ErrFenced", err)
		}
		_, _ = old.Release(t.Context()), young.Release(t.Context())
	})
}
