package quorumstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/quorumstore"
)

// limit is how long a test waits for an event that has to come. Running out of it is a failure.
const limit = time.Minute

// cluster is some masters and a proxy before each.
type cluster struct {
	servers []*testenv.Server
	proxies []*testenv.Proxy
}

func start(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{servers: masters(t, n)}
	for _, s := range c.servers {
		c.proxies = append(c.proxies, testenv.NewProxy(t, s.Addr()))
	}
	return c
}

// masters starts n servers.
func masters(t *testing.T, n int) []*testenv.Server {
	t.Helper()
	all := make([]*testenv.Server, n)
	for i := range all {
		all[i] = testenv.Redis(t)
	}
	return all
}

func (c *cluster) addrs() []string {
	var all []string
	for _, p := range c.proxies {
		all = append(all, p.Addr())
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
func open(t testenv.TB, addrs []string) *quorumstore.Store {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return quorumstore.New(clients)
}

// lock returns locks over a store, as another process has them.
func lock(t testenv.TB, store latchkey.Store, opts ...latchkey.LocksOption) *latchkey.Locks {
	t.Helper()
	locks := latchkey.New(store, opts...)
	t.Cleanup(locks.Close)
	return locks
}

func take(t *testing.T, locks *latchkey.Locks, key string, opts ...latchkey.HoldOption) *latchkey.Lease {
	t.Helper()
	lease, err := locks.Acquire(t.Context(), key, append([]latchkey.HoldOption{latchkey.Wait(limit)}, opts...)...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

func release(t *testing.T, lease *latchkey.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("Release(%q): %v", lease.Key(), err)
	}
}

// cycle takes a lock and lets it go, n times, and returns how long each took, sorted.
func cycle(t *testing.T, locks *latchkey.Locks, key string, n int) []time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		begin := time.Now()
		release(t, take(t, locks, key, latchkey.RenewedLease(2*time.Second)))
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

// eventually waits for something that tells nobody when it happens.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// holders counts on how many of the servers the key k has a holder whose value begins with the text.
func holders(t *testing.T, servers []*testenv.Server, prefix string) int {
	t.Helper()
	n := 0
	for _, s := range servers {
		if v := s.Do(t, "GET", name); v != nil && strings.HasPrefix(fmt.Sprint(v), prefix) {
			n++
		}
	}
	return n
}

// nothingLeft waits until no server has a key.
func nothingLeft(t *testing.T, servers []*testenv.Server) {
	t.Helper()
	for i, s := range servers {
		var keys []string
		eventually(t, fmt.Sprintf("master %d has no keys", i), func() bool {
			keys = s.Keys(t)
			return len(keys) == 0
		})
	}
}

func do(store latchkey.Store, op latchkey.Op) latchkey.Op {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	store.Do(ctx, []*latchkey.Op{&op})
	return op
}
