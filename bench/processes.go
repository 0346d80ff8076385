package main

import (
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// processes measures one key that several processes want, each holder needing it for a moment: the lock should cost
// nothing beside that, and turns should go round.
func processes(env testenv.TB, c config, r *report) {
	const (
		procs = 4
		body  = time.Millisecond
	)
	goroutines, d := 16, 3*c.slice
	if c.quick {
		goroutines, d = 4, 2*c.slice
	}
	srv := unpinned.redis(env)
	r.titlef("processes, unpinned: %d processes of %d goroutines, one key, kept for %v (a sleep)", procs, goroutines, body)
	r.notef("the mutex is that of one process with %d goroutines", procs*goroutines)
	contenders := []string{isMutex, isLatchkeyFor, isRedsync, isRedsync + ", 1ms", isRedislock + ", 1ms", isRedislock + ", 10ms"}
	contests := make([]*contest, len(contenders))
	for i, name := range contenders {
		n, j := procs, job{Load: "pairs", Contender: name, Addr: srv.Addr(), Goroutines: goroutines, OneKey: true, Body: body}
		if name == isMutex {
			n, j.Goroutines = 1, procs*goroutines
		}
		contests[i] = &contest{srv: srv, crew: hire[pairsResult](env, n, anyCore, j)}
	}
	interleave(env, c.rounds, d, contests...)

	rows := make([]string, len(contenders))
	for i, one := range contests {
		rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", contenders[i], one.perSecond.spread("%.0f"),
			one.perSecond.over(contests[0].perSecond).spread("%.2f"), one.p50.spread("%.0f"), one.p99.spread("%.0f"),
			one.p99.over(one.ideal(procs*goroutines)).spread("%.2f"), one.starved.spread("%.0f"), one.jain.spread("%.3f"))
	}
	r.table("contender\tacquisitions/s\t× mutex\tp50 wait, ms\tp99 wait, ms\tp99 × ideal\tstarved\tJain", rows)
	ours := contests[1]
	r.atLeast("processes, latchkey × mutex", ours.perSecond.over(contests[0].perSecond), 0.9)
	r.atMost("processes, p99 wait × ideal", ours.p99.over(ours.ideal(procs*goroutines)), 1.2)
	r.atMost("processes, goroutines without a turn", ours.starved, 0)
}

// ideal is how long everybody would wait, in ms, if turns went round at the rate that was reached.
func (c *contest) ideal(n int) series {
	waits := make(series, len(c.perSecond))
	for i, rate := range c.perSecond {
		waits[i] = 1e3 * float64(n) / rate
	}
	return waits
}
