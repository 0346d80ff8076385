package quorumstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/quorumstore"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }

// masters starts n servers.
func masters(t *testing.T, n int) []*testenv.Server {
	t.Helper()
	all := make([]*testenv.Server, n)
	for i := range all {
		all[i] = testenv.Redis(t)
	}
	return all
}

func addrs(servers []*testenv.Server) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

// open returns a store over the addresses, with clients of its own, as another process has it.
func open(t *testing.T, addrs []string, opts ...quorumstore.Option) *quorumstore.Store {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return quorumstore.New(clients, opts...)
}

func TestConformance(t *testing.T) {
	addrs := addrs(masters(t, 5))
	locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) { return open(t, addrs), open(t, addrs) })
}

func TestConformanceOverThreeMasters(t *testing.T) {
	addrs := addrs(masters(t, 3))
	locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) { return open(t, addrs), open(t, addrs) })
}
