package main

import (
	"fmt"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// hot measures one key that everybody in a process wants and nobody needs for long: what the lock itself costs.
func hot(env testenv.TB, c config, r *report) {
	goroutines := 64
	// Long enough for the slowest poller to have its chance.
	d := 2 * c.slice
	if c.quick {
		goroutines, d = 16, c.slice
	}
	srv := unpinned.redis(env)
	r.titlef("hot, unpinned: %d goroutines of one process, one key, empty body", goroutines)
	contenders := []string{isLatchkeyFor, isRedsync, isRedsync + ", 1ms", isRedsync + ", 10ms",
		isRedislock + ", 1ms", isRedislock + ", 10ms", isMutex}
	contests := make([]*contest, len(contenders))
	for i, name := range contenders {
		contests[i] = &contest{srv: srv, crew: hire[pairsResult](env, 1, anyCore,
			job{Load: "pairs", Contender: name, Addr: srv.Addr(), Goroutines: goroutines, OneKey: true})}
	}
	interleave(env, c.rounds, d, contests...)

	rows := make([]string, len(contenders))
	for i, one := range contests {
		rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s", contenders[i], one.perSecond.spread("%.0f"), one.jain.spread("%.3f"),
			one.commands.spread("%.2f"), one.starved.spread("%.0f"))
	}
	r.table("contender\tacquisitions/s\tJain\tcommands each\tstarved", rows)
	ours, polling := contests[0], contests[1:len(contests)-1]
	peers := make([]series, len(polling))
	for i, one := range polling {
		peers[i] = one.perSecond
	}
	r.atLeast("hot, latchkey × the best of redsync and redislock", ours.perSecond.over(better(peers...)), 15)
	r.atLeast("hot, Jain's index", ours.jain, 0.99)
	r.atMost("hot, Redis commands per acquisition", ours.commands, 0.3)
}
