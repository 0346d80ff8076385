package quorumstore_test

import (
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/locktest"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Children{"counter": counter})
}

func TestConformance(t *testing.T) {
	for name, n := range map[string]int{"three masters": 3, "five masters": 5} {
		t.Run(name, func(t *testing.T) {
			addrs := addrs(masters(t, n))
			locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) { return open(t, addrs), open(t, addrs) })
		})
	}
}
