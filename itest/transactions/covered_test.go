//go:build unix

package transactions

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// slowRenewals takes its time for the first renewal, and counts them.
type slowRenewals struct {
	*memstore.Store

	took  time.Duration
	count atomic.Int64
}

func (s *slowRenewals) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if op.Kind == latchkey.OpRenew && s.count.Add(1) == 1 {
			<-time.After(s.took)
		}
	}
	s.Store.Do(ctx, ops)
}

// COMMIT may take as long as every lease lasts: the renewal of one of them must not have eaten what another one had left.
func TestRenewalForCommitIsNotPaidByAnotherLock(t *testing.T) {
	const need, work = 9 * time.Second, 3200 * time.Millisecond
	for _, took := range []time.Duration{0, 1500 * time.Millisecond} {
		t.Run(took.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, "sqlite").open(t, 0)
			store := &slowRenewals{Store: memstore.New(), took: took}
			locks := latchkey.New(store)
			defer locks.Close()
			m := latchkey.NewTxManager(db, latchkey.CommitTimeout(need))
			// When the work is done this one has to be renewed, for the first time; the watchdog would do so later,
			renewed := locks.WithLock("renewed", latchkey.RenewedLease(12*time.Second))
			// and this one, which is looked at before, has a second to spare.
			fixed := locks.WithLock("fixed", latchkey.LeaseFor(need+work+1100*time.Millisecond), latchkey.Transactional(m))
			err := latchkey.Action(renewed, latchkey.Action(fixed, func(ctx context.Context, _ string) error {
				tx, _ := latchkey.TxFrom(ctx)
				<-time.After(work)
				return add(ctx, tx, "a", 1)
			}))(t.Context(), "")
			if store.count.Load() == 0 {
				t.Fatal("void: nothing was renewed for COMMIT")
			}
			n, lost := value(t, db, "a"), errors.Is(err, latchkey.ErrLeaseLost)
			if want := took > 0; lost != want || (n == 0) != want || !lost && err != nil {
				t.Errorf("got %v, committed %d", err, n)
			}
			if lost && !strings.Contains(err.Error(), "LeaseFor leaves no time") {
				t.Errorf("got %v", err)
			}
		})
	}
}
