//go:build unix

package transactions

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// COMMIT runs on a goroutine that stays for the next one. One that is stuck must hold up nobody, and none may stay for good.
func TestACommitThatIsStuckHoldsUpNoOther(t *testing.T) {
	const limit = 3 * time.Second
	c := newCuts(t, "postgres")
	m := latchkey.NewTxManager(c.db, latchkey.Fenced(), latchkey.CommitTimeout(limit))
	insert := func(id string) error {
		return m.InTx(t.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
			_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger VALUES (?)"), id)
			return err
		})
	}
	if err := insert("warm"); err != nil { // its goroutine waits for the next one now
		t.Fatal(err)
	}
	c.proxy.SwallowReplies(testenv.Containing("commit"), testenv.Times(1))
	var stuck sync.WaitGroup
	start := time.Now()
	var took time.Duration
	stuck.Go(func() {
		_ = insert("stuck")
		took = time.Since(start)
	})
	c.proxy.AwaitFaults(t, 1)
	for _, id := range []string{"one", "two", "three"} {
		if err := insert(id); err != nil {
			t.Error(err)
		}
	}
	others := time.Since(start)
	stuck.Wait()
	if took < limit || others >= limit {
		t.Errorf("the one that was stuck took %v, the others were done after %v; the limit is %v", took, others, limit)
	}
	eventually(t, "the goroutines are gone", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "latchkey.enders.serve")
	})
}
