package main

import (
	"fmt"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// throughput measures how many locks that nobody else wants a process gets through, and what that costs it.
func throughput(env testenv.TB, c config, r *report) {
	const goroutines = 64
	srv := unpinned.redis(env)
	r.titlef("throughput, unpinned: %d goroutines lock and unlock keys of their own", goroutines)
	contenders := []string{isByHand, isLatchkey, isLatchkey3s, isRedsync, isRedislock}
	contests := make([]*contest, len(contenders))
	for i, name := range contenders {
		contests[i] = &contest{srv: srv, crew: hire[pairsResult](env, 1, anyCore,
			job{Load: "pairs", Contender: name, Addr: srv.Addr(), Goroutines: goroutines})}
	}
	interleave(env, c.rounds, c.slice, contests...)

	rows := make([]string, len(contenders))
	for i, one := range contests {
		rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", contenders[i], one.perSecond.spread("%.0f"),
			one.perSecond.over(contests[0].perSecond).spread("%.2f"), one.cpu.spread("%.2f"), one.serverCPU.spread("%.2f"),
			one.allocs.spread("%.0f"))
	}
	r.table("contender\tpairs/s\t× by hand\tclient CPU s/100k\tserver CPU s/100k\tallocs", rows)
}
