package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// handover measures the time from one process letting go of a lock until another one, which waits for it, is in its
// function. Two processes take turns; whoever let go stays away until the other is surely in, and comes back in time to be
// surely waiting.
func handover(env testenv.TB, c config, r *report) {
	const (
		hold = 10 * time.Millisecond
		away = 3 * time.Millisecond
	)
	// A hand-over takes a hold; a round should have some tens, and there should be some hundreds.
	c.rounds *= 3
	places := []placement{twoCores(), unpinned}
	if places[0] == unpinned {
		places = places[:1]
	}
	for _, p := range places {
		srv := p.redis(env)
		r.titlef("handover, %s: from letting go in one process to the function of another, idle for %v", p.name, hold-away)
		if p.client != anyCore {
			r.notef("both processes on one core, the server on the other")
		}
		contenders := []string{isPrototype, isLatchkeyFor, isRedislock + ", 1ms"}
		crews := make([]crew[pairsResult], len(contenders))
		for i, name := range contenders {
			crews[i] = hire[pairsResult](env, 2, p.client, job{Load: "pairs", Contender: name, Addr: srv.Addr(),
				Goroutines: 1, OneKey: true, Body: hold, Pause: away})
		}
		ping := hire[pairsResult](env, 1, p.client, job{Load: "ping", Addr: srv.Addr(), Body: hold})
		var pingP50, pingAll series
		p50, all := make([]series, len(contenders)), make([]series, len(contenders))
		for range c.rounds {
			var took series
			for _, w := range ping.turn(env, c.slice)[0].Waits {
				took = append(took, float64(w)/1e3)
			}
			pingP50, pingAll = append(pingP50, took.median()), append(pingAll, took...)
			for i := range contenders {
				took, err := handovers(crews[i].turn(env, c.slice))
				if err != nil {
					env.Fatalf("handover, %s: %v", contenders[i], err)
				}
				p50[i], all[i] = append(p50[i], took.median()), append(all[i], took...)
			}
		}

		rows := []string{fmt.Sprintf("PING after %v\t%s\t%.0f\t1.00\t%s\t%d", hold, pingP50.spread("%.0f"), pingAll.quantile(0.99),
			pingP50.over(p50[0]).spread("%.2f"), len(pingAll))}
		for i, name := range contenders {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%.0f\t%s\t%s\t%d", name, p50[i].spread("%.0f"), all[i].quantile(0.99),
				p50[i].over(pingP50).spread("%.2f"), p50[i].over(p50[0]).spread("%.2f"), len(all[i])))
		}
		r.table("contender\tp50, µs\tp99 of all, µs\t× PING\t× prototype\thand-overs", rows)
		r.atMost(fmt.Sprintf("handover, %s, p50 × prototype", p.name), p50[1].over(p50[0]), 1.2)
	}
}

// stay is one holder's time in the locked function, in Unix nanoseconds.
type stay struct {
	who           int
	entered, left int64
}

// stays returns who held the lock when, in order, and fails if two held it at once.
func stays(results []pairsResult) ([]stay, error) {
	var all []stay
	for who, r := range results {
		for i := range r.Entered {
			all = append(all, stay{who, r.Entered[i], r.Left[i]})
		}
	}
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.entered, b.entered) })
	for i := 1; i < len(all); i++ {
		if all[i].entered < all[i-1].left {
			return nil, fmt.Errorf("two held the lock for %v at once", time.Duration(all[i-1].left-all[i].entered))
		}
	}
	return all, nil
}

// handovers returns the times, in µs, from one process to the other.
func handovers(results []pairsResult) (series, error) {
	all, err := stays(results)
	if err != nil {
		return nil, err
	}
	var took series
	for i := 1; i < len(all); i++ {
		if all[i].who != all[i-1].who {
			took = append(took, float64(all[i].entered-all[i-1].left)/1e3)
		}
	}
	if len(took) == 0 {
		return nil, errors.New("the lock never changed hands")
	}
	return took, nil
}
