package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

// batchOf is how many operations that take less than a microsecond are done between two looks at the clock.
const batchOf = 500

// timing is what one operation costs.
type timing struct{ Nanos, Allocs, Bytes float64 }

// timed does f over and over for a time.
func timed(d time.Duration, f func()) timing {
	before, begin := usageNow(), time.Now()
	n := 0
	for end := begin.Add(d); time.Now().Before(end); n += batchOf {
		for range batchOf {
			f()
		}
	}
	took, used := time.Since(begin), usageNow().since(before)
	return timing{float64(took) / float64(n), float64(used.Mallocs) / float64(n), float64(used.Bytes) / float64(n)}
}

// timings is a worker's load: the operations by name, each in its turn. The list must be the same each time.
func timings(names []string, ops map[string]func()) func(turn) (any, error) {
	for _, name := range names {
		timed(time.Millisecond, ops[name])
	}
	return func(t turn) (any, error) {
		results := make(map[string]timing)
		for _, name := range names {
			results[name] = timed(t.For/time.Duration(len(names)), ops[name])
		}
		return results, nil
	}
}

// figures are timings by name, a round each.
type figures map[string]*struct{ nanos, allocs, bytes series }

// measureLocal has a pinned worker do its rounds.
func measureLocal(env testenv.TB, c config, load string) figures {
	env.Helper()
	crew := hire[map[string]timing](env, 1, oneCore().client, job{Load: load})
	all := make(figures)
	for range 4 * c.rounds { // short turns, and many: what takes nanoseconds is easily disturbed
		for name, t := range crew.turn(env, c.slice/2)[0] {
			f := all[name]
			if f == nil {
				f = &struct{ nanos, allocs, bytes series }{}
				all[name] = f
			}
			f.nanos, f.allocs, f.bytes = append(f.nanos, t.Nanos), append(f.allocs, t.Allocs), append(f.bytes, t.Bytes)
		}
	}
	return all
}

var memoryNames = []string{isMutex, isLatchkey, isLatchkey3s, "latchkey Acquire"}

// memory measures the decorator where the store costs next to nothing: what latchkey itself takes.
func memory(env testenv.TB, c config, r *report) {
	r.titlef("memstore, %s: one goroutine, free keys, the whole decorator", oneCore().name)
	all := measureLocal(env, c, "memstore")
	rows := make([]string, len(memoryNames))
	for i, name := range memoryNames {
		f := all[name]
		rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s", name, f.nanos.spread("%.0f"), f.nanos.over(all[isMutex].nanos).spread("%.1f"),
			f.allocs.spread("%.1f"), f.bytes.spread("%.0f"))
	}
	r.table("contender\tns\t× mutex\tallocs\tbytes", rows)
	for _, name := range []string{isLatchkey, isLatchkey3s} {
		r.atMost("memstore, "+name+", ns", all[name].nanos, 1000)
		r.atMost("memstore, "+name+", allocations", all[name].allocs.rounded(), 6)
	}
}

func memoryLoad(job) (func(turn) (any, error), error) {
	locks := latchkey.New(memstore.New())
	ctx := requestContext()
	var mu sync.Mutex
	var id, entered int64
	decorated := func(opts ...latchkey.DecoratorOption) func() {
		f := latchkey.Func(locks.WithLock("order:#{param.id}", opts...), func(context.Context, orderParam) (struct{}, error) {
			entered++
			return struct{}{}, nil
		})
		return func() {
			id = (id + 1) % spreadKeys
			if _, err := f(ctx, orderParam{ID: 1_000_000 + id}); err != nil {
				panic(err)
			}
		}
	}
	ops := map[string]func(){
		isMutex: func() {
			mu.Lock()
			defer mu.Unlock()
			entered++
		},
		isLatchkey:   decorated(),
		isLatchkey3s: decorated(latchkey.Wait(3 * time.Second)),
		"latchkey Acquire": func() {
			id = (id + 1) % spreadKeys
			lease, err := locks.Acquire(ctx, orderKey(id))
			if err != nil {
				panic(err)
			}
			entered++
			if err := lease.Release(ctx); err != nil {
				panic(err)
			}
		},
	}
	return timings(memoryNames, ops), nil
}
