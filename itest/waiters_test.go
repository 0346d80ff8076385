//go:build unix

package itest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	crowd    = 1000
	poolSize = 2
)

// queuedCtx tells when somebody begins to listen to it, which a waiter does when it has its place in the queue.
type queuedCtx struct {
	context.Context
	once   sync.Once
	queued chan struct{}
}

func (c *queuedCtx) Done() <-chan struct{} {
	c.once.Do(func() { close(c.queued) })
	return c.Context.Done()
}

// crowded is what the server saw of a thousand callers of one process who wait for one key.
type crowded struct {
	turns       []int         // the order in which they had it
	owners      []string      // who asked the server for it, in order
	connections int64         // that they made
	waited      time.Duration // until the key was free
}

// changesOfMind is how often the server was asked by somebody after another one of the same process had asked in between.
func (c crowded) changesOfMind() (n int) {
	seen := map[string]bool{}
	for i, o := range c.owners {
		if i > 0 && o != c.owners[i-1] && seen[o] {
			n++
		}
		seen[o] = true
	}
	return n
}

// enterer waits for the key on behalf of caller i and returns how to let it go.
type enterer func(ctx context.Context, s *service, key string, i int) (letGo func(), err error)

// gather has n callers wait for a key that another process holds, lets go of it and waits for all of them.
func gather(t *testing.T, n int, enter enterer) (c crowded) {
	t.Helper()
	const key = "crowded"
	srv := testenv.Redis(t)
	other := connect(t, srv.Addr())
	s := connectBy(t, &redis.Options{Addr: srv.Addr(), PoolSize: poolSize}, plain)
	m := watch(t, srv)
	held := other.take(t, key)
	connections := func() int64 { return number(t, srv.Info(t, "stats")["total_connections_received"]) }
	from, begin, before := m.mark(t), time.Now(), connections()

	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		ctx := &queuedCtx{Context: context.Background(), queued: make(chan struct{})}
		all.Go(func() {
			letGo, err := enter(ctx, s, key, i)
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			mu.Lock()
			c.turns = append(c.turns, i)
			mu.Unlock()
			letGo()
		})
		hear(t, "caller "+strconv.Itoa(i)+" waits", ctx.queued)
	}
	c.waited = time.Since(begin)
	release(t, held)
	all.Wait()
	c.connections = connections() - before - 1 // the question is a connection too
	to := m.mark(t)
	for _, op := range m.between(from, to, acquires) {
		c.owners = append(c.owners, op.owner())
	}
	t.Logf("%d callers: %d attempts by %d owners, %d connections",
		n, len(c.owners), len(slices.Compact(slices.Sorted(slices.Values(c.owners)))), c.connections)
	return c
}

func TestThousandWaitersOnTwoConnectionsGetTheirTurnInOrder(t *testing.T) {
	c := gather(t, crowd, func(ctx context.Context, s *service, key string, _ int) (func(), error) {
		lease, err := s.Acquire(ctx, key, latchkey.Wait(patience))
		return func() { _ = lease.Release(ctx) }, err
	})
	if len(c.turns) != crowd || !slices.IsSorted(c.turns) {
		t.Errorf("%d of %d waiters had their turn, first come first served: %t", len(c.turns), crowd, slices.IsSorted(c.turns))
	}
	// One who waits asks twice at first and then every 375 to 500 ms. A lock that has gone round a process for a while
	// goes to the server, to see whether another process waits.
	bound := 2 + int(c.waited/(375*time.Millisecond)) + crowd/8
	if len(c.owners) > bound {
		t.Errorf("the server was asked %d times for the key, more than %d", len(c.owners), bound)
	}
	if n := c.changesOfMind(); n > 0 {
		t.Errorf("%d times somebody asked for the key who was not this process's only contender", n)
	}
	if c.connections > poolSize+1 {
		t.Errorf("%d connections were made; the pool has %d, the subscription is one", c.connections, poolSize)
	}
}

func TestCallersWhoDoNotQueueAreSeenOutOfOrder(t *testing.T) {
	c := gather(t, crowd/10, func(ctx context.Context, s *service, key string, i int) (func(), error) {
		for {
			ok, err := s.client.SetNX(ctx, full(key), strconv.Itoa(i), time.Minute).Result()
			if ok || err != nil {
				return func() { s.client.Del(ctx, full(key)) }, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	if slices.IsSorted(c.turns) {
		t.Error("callers without a queue had their turns in order: the harness sees no disorder")
	}
	if c.changesOfMind() == 0 {
		t.Error("many callers asked, each for itself, and the harness saw one at a time")
	}
}
