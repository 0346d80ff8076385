package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// spreadKeys is how many keys a goroutine goes through if it has keys of its own.
const spreadKeys = 1024

// visit is one goroutine's time under the lock, again and again.
type visit struct {
	body   time.Duration
	called time.Time
	end    time.Time
	count  int64 // all
	inTime int64 // those before end
	// With a body there are few enough to keep them all.
	waits         []time.Duration
	entered, left []int64 // Unix ns
}

// run is the body of the locked function.
func (v *visit) run() {
	v.count++
	if v.body == 0 {
		return
	}
	now := time.Now()
	v.waits = append(v.waits, now.Sub(v.called))
	v.entered = append(v.entered, now.UnixNano())
	time.Sleep(v.body)
	v.left = append(v.left, time.Now().UnixNano())
}

// pairsResult is one worker's round.
type pairsResult struct {
	Usage         usage
	Took          time.Duration // of the turns in time
	All           int64         // turns, also those that were waited for when the time was over
	Turns         []int64       // in time, by goroutine
	Waits         []time.Duration
	Entered, Left []int64
}

// pairs locks and unlocks in a loop, in every goroutine. When the time is over each one still gets the lock that it
// waits for: nobody's wait is cut short, and no lock is left behind by a cancelled request.
func pairs(j job) (func(turn) (any, error), error) {
	call, err := contend(j)
	if err != nil {
		return nil, err
	}
	ctx := requestContext()
	act := func(t turn) (any, error) { return pairsRound(ctx, j, call, t) }
	// Connections, scripts, subscription and pools are made before it counts.
	_, err = act(turn{time.Now(), 20 * time.Millisecond})
	return act, err
}

// requestContext returns a context such as a request has, one that can be cancelled and has a deadline; it lives as long as
// the worker.
func requestContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	_ = cancel // nobody wants it to end
	return ctx
}

func pairsRound(ctx context.Context, j job, call locked, t turn) (pairsResult, error) {
	visits := make([]visit, j.Goroutines)
	errs := make([]error, j.Goroutines)
	for i := range visits {
		visits[i] = visit{body: j.Body, end: t.end()}
	}
	time.Sleep(time.Until(t.Begin))
	before, begin := usageNow(), time.Now()
	var all sync.WaitGroup
	for i := range visits {
		all.Go(func() { errs[i] = pairsLoop(ctx, j, call, int64(i), &visits[i]) })
	}
	all.Wait()
	r := pairsResult{Usage: usageNow().since(before), Took: t.end().Sub(begin)}
	var inTime int64
	for i := range visits {
		inTime += visits[i].inTime
	}
	// One goroutine is not cut short in the middle of its last pair; nor is anybody if the time was too short for all.
	toTheEnd := j.Goroutines == 1 || inTime == 0
	if toTheEnd {
		r.Took = time.Since(begin)
	}
	for i := range visits {
		v := &visits[i]
		if toTheEnd {
			v.inTime = v.count
		}
		r.All += v.count
		r.Turns = append(r.Turns, v.inTime)
		r.Waits = append(r.Waits, v.waits...)
		r.Entered = append(r.Entered, v.entered...)
		r.Left = append(r.Left, v.left...)
	}
	for _, err := range errs {
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func pairsLoop(ctx context.Context, j job, call locked, i int64, v *visit) error {
	id := int64(7)
	for n := int64(0); ; n++ {
		v.called = time.Now()
		if n > 0 && v.called.After(v.end) {
			return nil
		}
		if !j.OneKey {
			id = 1_000_000*(i+1) + n%spreadKeys
		}
		if err := call(ctx, id, v); err != nil {
			return err
		}
		if !time.Now().After(v.end) {
			v.inTime++
		}
		if j.Pause > 0 {
			time.Sleep(j.Pause)
		}
	}
}

// contest is one contender's figures, a round each.
type contest struct {
	crew crew[pairsResult]
	srv  *testenv.Server

	perSecond, nanos, allocs series
	cpu, serverCPU           series // seconds for 100,000 pairs
	commands                 series // for each acquisition
	jain, starved            series
	p50, p99                 series // wait, ms
}

// round gives the contender its turn.
func (c *contest) round(env testenv.TB, d time.Duration) {
	env.Helper()
	c.srv.ResetStats(env)
	cpu := serverCPU(env, c.srv)
	results := c.crew.turn(env, d)
	cpu = serverCPU(env, c.srv) - cpu
	var commands int64
	for _, n := range c.srv.Commands(env) {
		commands += n
	}

	var all, inTime, starved int64
	var rate, took, used, mallocs float64
	var turns []int64
	var waits series
	for _, r := range results {
		var sum int64
		for _, n := range r.Turns {
			sum += n
			if n == 0 {
				starved++
			}
		}
		all, inTime = all+r.All, inTime+sum
		rate += float64(sum) / r.Took.Seconds()
		took += float64(r.Took)
		used += r.Usage.CPU.Seconds()
		mallocs += float64(r.Usage.Mallocs)
		turns = append(turns, r.Turns...)
		for _, w := range r.Waits {
			waits = append(waits, float64(w)/1e6)
		}
	}
	if inTime == 0 {
		env.Fatalf("nobody got a lock in %v", d)
	}
	if _, err := stays(results); err != nil {
		env.Fatalf("%v", err)
	}
	c.perSecond = append(c.perSecond, rate)
	c.nanos = append(c.nanos, took/float64(inTime))
	c.allocs = append(c.allocs, mallocs/float64(all))
	c.cpu = append(c.cpu, 1e5*used/float64(all))
	c.serverCPU = append(c.serverCPU, 1e5*cpu.Seconds()/float64(all))
	c.commands = append(c.commands, float64(commands)/float64(all))
	c.jain = append(c.jain, jain(turns))
	c.starved = append(c.starved, float64(starved))
	slices.Sort(waits)
	c.p50, c.p99 = append(c.p50, waits.quantile(0.5)), append(c.p99, waits.quantile(0.99))
}

// bothCPU is the CPU time of client and server for 100,000 pairs, in seconds.
func (c *contest) bothCPU() series {
	sum := make(series, len(c.cpu))
	for i := range sum {
		sum[i] = c.cpu[i] + c.serverCPU[i]
	}
	return sum
}

// interleave gives every contender its turn, round by round.
func interleave(env testenv.TB, rounds int, d time.Duration, contests ...*contest) {
	env.Helper()
	for range rounds {
		for _, c := range contests {
			c.round(env, d)
		}
	}
}
