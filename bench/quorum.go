package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/quorumstore"
)

// masters is how many servers have a vote.
const masters = 5

// ensemble is the servers of the quorum. The last one is behind a proxy that can slow it down.
type ensemble struct {
	env     testenv.TB
	servers []*testenv.Server
	proxy   *testenv.Proxy
}

func newEnsemble(env testenv.TB) *ensemble {
	env.Helper()
	e := &ensemble{env: env}
	for range masters {
		e.servers = append(e.servers, testenv.Redis(env))
	}
	e.proxy = testenv.NewProxy(env, e.servers[masters-1].Addr())
	return e
}

func (e *ensemble) addrs() string {
	var all []string
	for _, srv := range e.servers[:masters-1] {
		all = append(all, srv.Addr())
	}
	return strings.Join(append(all, e.proxy.Addr()), ",")
}

// slowBy is how late a slow server hears of a request: many times later than the others, and not yet late enough to be
// taken for one that is down.
const slowBy = 50 * time.Millisecond

// ailment is what is wrong with some of the servers, and how it begins and ends.
type ailment struct {
	name         string
	servers      int // that suffer from it
	begin, relax func(e *ensemble)
}

var (
	kill   = func(e *ensemble) { e.servers[0].Kill(e.env) }
	revive = func(e *ensemble) { e.servers[0].Restart(e.env, false) }
	pause  = func(e *ensemble) { e.servers[1].Pause(e.env) }
	resume = func(e *ensemble) { e.servers[1].Resume(e.env) }
	slow   = func(e *ensemble) { e.proxy.DelayRequests(slowBy) }
	hurry  = func(e *ensemble) { e.proxy.Heal() }

	ailments = []ailment{
		{"one dead", 1, kill, revive},
		{"one paused", 1, pause, resume},
		{fmt.Sprintf("one slow, by %v", slowBy), 1, slow, hurry},
		{"one dead, one paused", 2, both(kill, pause), both(revive, resume)},
		{"one paused, one slow", 2, both(pause, slow), both(resume, hurry)},
	}
)

func both(one, two func(*ensemble)) func(*ensemble) {
	return func(e *ensemble) { one(e); two(e) }
}

// quorumResult is a worker's round over the servers.
type quorumResult struct {
	Took   []time.Duration // of each lock and unlock
	Failed int64
	Error  string // of one that failed
	Out    int    // servers that are left out, at the end
}

// learnFor bounds how long the client may take to notice that something is wrong, or no longer is.
const learnFor = 3 * time.Second

// quorum measures what a lock costs while a minority of the servers is not well, once the client has noticed.
func quorum(env testenv.TB, c config, r *report) {
	c.rounds = (c.rounds + 1) / 2 // each is many turns long
	e := newEnsemble(env)
	r.titlef("quorum, unpinned: one goroutine locks and unlocks free keys over %d servers", masters)
	r.notef("measured once the client leaves the servers out that are not well, or after %v if it does not", learnFor)
	patience, ill := learnFor, ailments
	if c.quick {
		patience, ill = 100*time.Millisecond, ailments[:1]
	}
	crew := hire[quorumResult](env, 1, anyCore, job{Load: "quorum", Contender: isLatchkey, Addr: e.addrs()})
	settle := func(out int) {
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if crew.turn(env, c.slice/10)[0].Out == out {
				return
			}
		}
	}
	type figures struct{ p50, p99, out, failed series }
	healthy, sick := make([]figures, len(ill)), make([]figures, len(ill))
	var failure string
	measure := func(f *figures) {
		got := crew.turn(env, c.slice/2)[0]
		var took series
		for _, d := range got.Took {
			took = append(took, float64(d)/1e3)
		}
		f.p50, f.p99 = append(f.p50, took.median()), append(f.p99, took.quantile(0.99))
		if got.Error != "" {
			failure = got.Error
		}
		f.out, f.failed = append(f.out, float64(got.Out)), append(f.failed, float64(got.Failed))
	}
	for range c.rounds {
		for i, a := range ill {
			measure(&healthy[i])
			a.begin(e)
			settle(a.servers)
			measure(&sick[i])
			a.relax(e)
			settle(0)
		}
	}
	row := func(name string, f, base figures) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%.0f\t%.0f", name, f.p50.spread("%.0f"), f.p99.spread("%.0f"),
			f.p99.over(base.p99).spread("%.2f"), f.out.median(), slices.Max(f.failed))
	}
	rows := []string{row("latchkey, all well", healthy[0], healthy[0])}
	for i, a := range ill {
		rows = append(rows, row(a.name, sick[i], healthy[i]))
	}
	r.table("servers\tp50, µs\tp99, µs\tp99 × all well\tleft out\tfailed", rows)
	if failure != "" {
		r.notef("a call that failed: %s", failure)
	}
	for i, a := range ill {
		r.atMost("quorum, "+a.name+", p99 × all well", sick[i].p99.over(healthy[i].p99), 2)
		r.atMost("quorum, "+a.name+", calls that failed", series{slices.Max(sick[i].failed)}, 0)
	}
}

// quorumLoad locks and unlocks. A call that fails is counted: it says something about the servers.
func quorumLoad(j job) (func(turn) (any, error), error) {
	var clients []redis.UniversalClient
	for addr := range strings.SplitSeq(j.Addr, ",") {
		clients = append(clients, connect(job{Addr: addr}))
	}
	store := quorumstore.New(clients)
	call, ctx, n := decorated(store), requestContext(), int64(0)
	return func(t turn) (any, error) {
		var r quorumResult
		time.Sleep(time.Until(t.Begin))
		for time.Now().Before(t.end()) {
			n++
			begin := time.Now()
			if err := call(ctx, n%spreadKeys, &visit{}); err != nil {
				r.Failed, r.Error = r.Failed+1, err.Error()
				continue
			}
			r.Took = append(r.Took, time.Since(begin))
		}
		r.Out = len(store.OutOfService())
		return r, nil
	}, nil
}
