package quorumstore_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/quorumstore"
)

func TestMain(m *testing.M) {
	// Carriers of batches end by themselves when they have had nothing to do for a moment, which goleak may not wait for.
	testenv.Main(m, testenv.Children{"burner": burner, "counter": counter, "holder": holder},
		goleak.IgnoreAnyFunction("github.com/latchkey-go/latchkey/internal/batch.(*Batcher[...]).carry"))
}

// settling is a store that waits for stragglers too. The suite has one owner ask through two stores, which Locks never does,
// and neither can account for what the other one has on its way.
type settling struct{ *quorumstore.Store }

func (s settling) Do(ctx context.Context, ops []*latchkey.Op) {
	s.Store.Do(ctx, ops)
	for end := time.Now().Add(limit); quorumstore.Flying(s.Store) > 0 && time.Now().Before(end); {
		<-time.After(100 * time.Microsecond)
	}
}

func TestConformance(t *testing.T) {
	for name, n := range map[string]int{"three masters": 3, "five masters": 5} {
		t.Run(name, func(t *testing.T) {
			addrs := addrs(masters(t, n))
			locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) {
				return settling{open(t, addrs)}, settling{open(t, addrs)}
			})
		})
	}
}
