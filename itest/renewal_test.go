//go:build unix

package itest

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// trips counts how often a client goes to its server.
type trips struct{ n atomic.Int64 }

// DialHook implements [redis.Hook].
func (*trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// renewed is what it took to keep leases for a while.
type renewed struct {
	renewals, trips, connections int64
	goroutines                   int // more than before
	thirds                       float64
	lost                         int
}

// thirds of a lease are watched.
const thirds = 6

// keep holds n leases, made by the services in turn, until they have been renewed that often.
func keep(t *testing.T, n, services int, lease time.Duration) (r renewed) {
	t.Helper()
	srv := testenv.Redis(t)
	count := &trips{}
	var all []*service
	for range services {
		s := connect(t, srv.Addr(), latchkey.RenewedLease(lease))
		s.client.AddHook(count)
		all = append(all, s)
	}
	var leases []*latchkey.Lease
	for i := range n {
		leases = append(leases, all[i%services].take(t, strconv.Itoa(i)))
	}
	// One round for all to fall into step.
	step := func() {
		all[0].events.await(t, latchkey.EventRenewed, all[0].events.count(latchkey.EventRenewed)+n/services)
	}
	step()
	goroutines := runtime.NumGoroutine()
	srv.ResetStats(t)
	before, begin := count.n.Load(), time.Now()
	for range thirds {
		step()
		r.goroutines = max(r.goroutines, runtime.NumGoroutine()-goroutines)
	}
	r.thirds = time.Since(begin).Seconds() / (lease / 3).Seconds()
	r.trips, r.renewals = count.n.Load()-before, srv.Commands(t)["evalsha"]
	r.connections = number(t, srv.Info(t, "stats")["total_connections_received"]) - 2 // the questions are connections too
	for _, l := range leases {
		if l.Context().Err() != nil {
			r.lost++
		}
	}
	t.Logf("%d leases in %d services, %.1f thirds of a lease: %d renewals in %d trips, %d new connections, %d more goroutines",
		n, services, r.thirds, r.renewals, r.trips, r.connections, r.goroutines)
	return r
}

func TestThousandLeasesAreRenewedInOneTripEachThirdOfALease(t *testing.T) {
	r := keep(t, 1000, 1, 2*time.Second)
	if r.lost > 0 {
		t.Errorf("%d leases were lost", r.lost)
	}
	if r.renewals < (thirds-1)*1000 {
		t.Errorf("only %d renewals: nothing is shown", r.renewals)
	}
	// A lease that is within a sixth of its turn goes along, so a few more renewals than thirds are right.
	if limit := int64(1000 * (r.thirds + 1) * 1.5); r.renewals > limit {
		t.Errorf("%d renewals, more than %d", r.renewals, limit)
	}
	if limit := int64((r.thirds + 1) * 3); r.trips > limit {
		t.Errorf("%d trips, more than %d", r.trips, limit)
	}
	if r.connections > 1 || r.goroutines > 10 {
		t.Errorf("%d new connections, %d more goroutines", r.connections, r.goroutines)
	}
}

func TestLeasesOfManyLocksAreSeenToTakeATripEach(t *testing.T) {
	r := keep(t, 50, 50, 900*time.Millisecond)
	if limit := int64((r.thirds + 1) * 3); r.trips <= limit {
		t.Errorf("50 leases without a common watchdog took %d trips: the harness does not count", r.trips)
	}
}
