package main

import (
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// uncontended measures what a lock costs that nobody else wants: one goroutine, two round trips.
func uncontended(env testenv.TB, c config, r *report) {
	c = c.fine(50 * time.Millisecond)
	for _, p := range placements() {
		srv := p.redis(env)
		contenders := []string{isRaw, isByHand, isLatchkey, isLatchkey3s, isRedsync, isRedislock}
		r.titlef("uncontended, %s: one goroutine locks and unlocks free keys", p.name)
		contests := make(map[string]*contest)
		order := make([]*contest, 0, len(contenders))
		for _, name := range contenders {
			one := &contest{srv: srv, crew: hire[pairsResult](env, 1, p.client,
				job{Load: "pairs", Contender: name, Addr: srv.Addr(), Goroutines: 1})}
			contests[name], order = one, append(order, one)
		}
		interleave(env, c.rounds, c.slice, order...)

		rows := make([]string, len(contenders))
		for i, name := range contenders {
			one := contests[name]
			rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", name, one.nanos.times(1e-3).spread("%.1f"),
				one.nanos.over(contests[isRaw].nanos).spread("%.2f"), one.nanos.over(contests[isByHand].nanos).spread("%.3f"),
				one.cpu.times(10).spread("%.1f"), one.serverCPU.times(10).spread("%.1f"),
				one.bothCPU().over(contests[isByHand].bothCPU()).spread("%.3f"),
				one.allocs.spread("%.0f"))
		}
		r.table("contender\tµs/pair\t× raw\t× by hand\tclient CPU, µs\tserver CPU, µs\tCPU × by hand\tallocs", rows)
		for _, name := range []string{isLatchkey, isLatchkey3s} {
			r.atMost(fmt.Sprintf("uncontended, %s, %s × by hand", p.name, name),
				contests[name].nanos.over(contests[isByHand].nanos), 1.05)
			if p.client == p.server {
				// The same if nothing else runs on the core, and still true if something does.
				r.atMost(fmt.Sprintf("uncontended, %s, %s, CPU time × by hand", p.name, name),
					contests[name].bothCPU().over(contests[isByHand].bothCPU()), 1.05)
			}
		}
	}
}
