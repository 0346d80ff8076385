package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

const (
	// batchOf is how many operations that take less than a microsecond are done between two looks at the clock.
	batchOf = 100
	// sampleFor is long enough for the garbage collector to take its share.
	sampleFor = 5 * time.Millisecond
)

// timing is what one operation costs.
type timing struct{ Nanos, Allocs, Bytes float64 }

// timed does f over and over for a time. What counts is CPU time, which other programs on the core do not stretch.
func timed(d time.Duration, f func()) timing {
	before := usageNow()
	cpu := cpuNow()
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n += batchOf {
		for range batchOf {
			f()
		}
	}
	cpu = cpuNow() - cpu
	used := usageNow().since(before)
	return timing{float64(cpu) / float64(n), float64(used.Mallocs) / float64(n), float64(used.Bytes) / float64(n)}
}

// timings is a worker's load: the operations one after the other, again and again while the turn lasts.
func timings(names []string, ops map[string]func()) func(turn) (any, error) {
	return func(t turn) (any, error) {
		samples := make(map[string][]timing)
		for first := true; first || time.Now().Before(t.end()); first = false {
			for _, name := range names {
				samples[name] = append(samples[name], timed(sampleFor, ops[name]))
			}
		}
		return samples, nil
	}
}

// figures are the samples of operations by name.
type figures map[string]*figure

type figure struct{ nanos, allocs, bytes series }

// undisturbed is the time that a quarter of the samples does not exceed. Whatever else the machine does only ever adds
// to such a short operation.
func (f *figure) undisturbed() float64 { return f.nanos.quantile(0.25) }

// print shows the undisturbed time, the fastest sample and where the slowest quarter begins.
func (f *figure) print() string {
	return fmt.Sprintf("%.0f (%.0f–%.0f)", f.undisturbed(), f.nanos.quantile(0), f.nanos.quantile(0.75))
}

// measureLocal has a pinned worker do its rounds.
func measureLocal(env testenv.TB, c config, load string) figures {
	env.Helper()
	crew := hire[map[string][]timing](env, 1, oneCore().client, job{Load: load})
	all := make(figures)
	for range c.rounds {
		for name, samples := range crew.turn(env, c.slice)[0] {
			f := all[name]
			if f == nil {
				f = &figure{}
				all[name] = f
			}
			for _, t := range samples {
				f.nanos, f.allocs, f.bytes = append(f.nanos, t.Nanos), append(f.allocs, t.Allocs), append(f.bytes, t.Bytes)
			}
		}
	}
	return all
}

var memoryNames = []string{isMutex, isLatchkey, isLatchkey3s, "latchkey Acquire"}

// memory measures the decorator where the store costs next to nothing: what latchkey itself takes.
func memory(env testenv.TB, c config, r *report) {
	r.titlef("memstore, %s: one goroutine, free keys, the whole decorator", oneCore().name)
	r.notef("lower quartile of samples of %v, the fastest and the upper quartile in parentheses", sampleFor)
	all := measureLocal(env, c, "memstore")
	rows := make([]string, len(memoryNames))
	for i, name := range memoryNames {
		f := all[name]
		rows[i] = fmt.Sprintf("%s\t%s\t%.0f\t%.1f\t%.0f", name, f.print(), f.undisturbed()/all[isMutex].undisturbed(),
			f.allocs.median(), f.bytes.median())
	}
	r.table("contender\tCPU ns\t× mutex\tallocs\tbytes", rows)
	for _, name := range []string{isLatchkey, isLatchkey3s} {
		r.atMost("memstore, "+name+", CPU ns", series{all[name].undisturbed()}, 1000)
		r.atMost("memstore, "+name+", allocations", series{math.Round(all[name].allocs.median())}, 6)
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
