//go:build unix

package transactions

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Locks that a transaction carries are let go in the reverse of the order in which they were taken.
func TestCarriedLocksAreLetGoLastInFirstOut(t *testing.T) {
	d := newDatabase(t, "sqlite")
	m := latchkey.NewTxManager(d.open(t, 0))
	for _, end := range []error{nil, errOwn} {
		var taken, released []string
		locks := latchkey.New(memstore.New(), latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
			switch e.Kind {
			case latchkey.EventAcquired:
				taken = append(taken, e.Key)
			case latchkey.EventReleased:
				released = append(released, e.Key)
			}
		})))
		lock := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error { return nil })
		err := m.InTx(t.Context(), func(ctx context.Context, _ *latchkey.Tx) error {
			for _, key := range []string{"b", "a", "d", "c"} {
				if err := lock(ctx, key); err != nil {
					return err
				}
			}
			if len(released) > 0 {
				t.Errorf("%v were let go before the end", released)
			}
			return end
		})
		locks.Close()
		if !errors.Is(err, end) || end == nil && err != nil {
			t.Errorf("got %v", err)
		}
		slices.Reverse(released)
		if want := []string{"k:b", "k:a", "k:d", "k:c"}; !slices.Equal(taken, want) || !slices.Equal(released, want) {
			t.Errorf("taken %v, let go, from the last to the first, %v; want both %v", taken, released, want)
		}
	}
}
