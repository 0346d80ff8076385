package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// heldResult is what it took to hold leases for a while.
type heldResult struct {
	Goroutines int     // more than before
	Memory     float64 // bytes for each lease, heap and stacks
	CPU        time.Duration
	Took       time.Duration
	Lost       int64
}

// held measures leases that nothing happens to: somebody keeps them alive, whatever their number.
func held(env testenv.TB, c config, r *report) {
	counts, lease, window := []int{1000, 10_000}, 6*time.Second, max(2*time.Second, 8*c.slice)
	if c.quick {
		counts, lease, window = []int{20}, 900*time.Millisecond, 400*time.Millisecond
	}
	r.titlef("held, unpinned: leases of %v that are only renewed, each third of it, watched for %v", lease, window)
	r.notef("one round; redislock renews nothing itself: a goroutine for each lease does it here")
	rows := make([]string, 0, 2*len(counts))
	var lost series
	for _, n := range counts {
		for _, name := range []string{isLatchkey, isRedislock} {
			srv := testenv.Redis(env)
			crew := hire[heldResult](env, 1, anyCore, job{Load: "held", Contender: name, Addr: srv.Addr(), N: n, Lease: lease})
			srv.ResetStats(env)
			cpu := serverCPU(env, srv)
			got := crew.turn(env, window)[0]
			cpu = serverCPU(env, srv) - cpu
			var commands, scripts int64
			for command, times := range srv.Commands(env) {
				commands += times
				if strings.HasPrefix(command, "eval") {
					scripts += times
				}
			}
			crew.dismiss(env) // or it would go on renewing beside the next one
			seconds := got.Took.Seconds()
			rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%.0f\t%.2f %%\t%.2f %%\t%.0f\t%.0f\t%d", name, n, got.Goroutines, got.Memory,
				100*got.CPU.Seconds()/seconds, 100*cpu.Seconds()/seconds, float64(scripts)/seconds, float64(commands)/seconds, got.Lost))
			if name == isLatchkey {
				lost = append(lost, float64(got.Lost))
			}
		}
	}
	r.table("contender\tleases\tgoroutines\tbytes each\tclient CPU\tserver CPU\trenewals/s\tcommands/s\tlost", rows)
	r.atMost("held, leases that latchkey lost", series{slices.Max(lost)}, 0)
}

// heldLoad takes the leases and then only watches what they cost.
func heldLoad(j job) (func(turn) (any, error), error) {
	client := connect(j)
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	memory, goroutines := footprint(), runtime.NumGoroutine()
	take, lost := heldByLatchkey(client, j)
	if j.Contender == isRedislock {
		take, lost = heldByRedislock(client, j)
	}
	errs := make(chan error, j.N)
	var all sync.WaitGroup
	slots := make(chan struct{}, 16) // so many at the same time
	for i := range j.N {
		slots <- struct{}{}
		all.Go(func() {
			if err := take(int64(i)); err != nil {
				errs <- err
			}
			<-slots
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		return nil, err
	}
	return func(t turn) (any, error) {
		time.Sleep(time.Until(t.Begin))
		before, begin := usageNow(), time.Now()
		time.Sleep(t.For)
		r := heldResult{CPU: usageNow().since(before).CPU, Took: time.Since(begin), Lost: lost()}
		r.Memory = float64(footprint()-memory) / float64(j.N)
		r.Goroutines = runtime.NumGoroutine() - goroutines
		return r, nil
	}, nil
}

// footprint is the memory in use, without garbage.
func footprint() int64 {
	runtime.GC()
	runtime.GC() // pools let go of what they have in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func heldByLatchkey(client *redis.Client, j job) (take func(int64) error, lost func() int64) {
	locks := latchkey.New(redisstore.New(client), latchkey.RenewedLease(j.Lease))
	ctx := context.Background()
	leases := make([]*latchkey.Lease, j.N)
	take = func(i int64) (err error) {
		leases[i], err = locks.Acquire(ctx, fmt.Sprintf("order:%d", i), latchkey.NoMaxHold())
		return err
	}
	lost = func() (n int64) {
		for _, lease := range leases {
			if lease.Context().Err() != nil {
				n++
			}
		}
		return n
	}
	return take, lost
}

func heldByRedislock(client *redis.Client, j job) (take func(int64) error, lost func() int64) {
	locker := redislock.New(client)
	ctx := context.Background()
	var gone atomic.Int64
	take = func(i int64) error {
		lock, err := locker.Obtain(ctx, orderKey(i), j.Lease, nil)
		if err != nil {
			return err
		}
		go func() { // until the process ends
			for range time.Tick(j.Lease / 3) {
				if err := lock.Refresh(ctx, j.Lease, nil); err != nil {
					gone.Add(1)
					return
				}
			}
		}()
		return nil
	}
	return take, gone.Load
}
