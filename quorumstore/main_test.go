package quorumstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/quorumstore"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Children{"counter": counter})
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
