//go:build unix

package itest

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	faultKey   = "cell"
	faultLease = 2 * time.Second
	faultOp    = 300 * time.Millisecond // op timeout of the victim
	prompt     = 1500 * time.Millisecond
	atOnce     = 10 // cells at a time: they wait more than they work
)

// overdue is a context whose deadline passes when the one it is made of is cancelled: at the moment of the fault, however
// slow the machine is.
type overdue struct{ context.Context }

// Err implements context.Context.
func (c overdue) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context]. Nothing is in it, so that [context.Cause] does not find what really happened.
func (overdue) Value(any) any { return nil }

// cell is one test of the table.
type cell struct {
	t       *testing.T
	step    step
	trouble trouble
	ctx     string

	srv           *testenv.Server
	proxy, aside  *testenv.Proxy // of the victim; of the others, which no fault befalls
	victim, other *service
	rival         *service
	runs          runs
	history       *history
	awake         time.Time // when the server answers its clients again
	acquireLost   bool      // what was swallowed asked for the lock; known once the fault has happened

	// Of controls: cells that are broken on purpose.
	broken  bool
	around  func(latchkey.Store) latchkey.Store // nil: the victim's store is as it is
	blind   bool                                // the victim's function does not look at its context
	barless bool                                // the stores can't bar an owner
	blocked bool                                // somebody else was, after a late copy
	wrong   []string                            // what was found
}

// failf says what is wrong with a cell, which is what a control waits for.
func (c *cell) failf(format string, args ...any) {
	if c.broken {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
		return
	}
	c.t.Helper()
	c.t.Errorf(format, args...)
}

// ending is how a call ended, and when.
type ending struct {
	err error
	at  time.Time
}

// notice befalls what the step asks, and notes whether that is of a kind.
func (c *cell) notice(pattern string) testenv.FaultOption {
	kind := regexp.MustCompile(`(?is)` + pattern)
	step := regexp.MustCompile(`(?is)` + c.step.asks)
	return testenv.Matching(func(request []byte) bool {
		if !step.Match(request) {
			return false
		}
		c.acquireLost = kind.Match(request)
		return true
	})
}

// detectAny has the proxy count when anything is asked. A server that stands still does not even greet new connections.
func (c *cell) detectAny() { c.proxy.DelayRequests(time.Nanosecond, testenv.Times(1)) }

// detect has the proxy count when the step comes, without doing anything to it.
func (c *cell) detect() {
	c.proxy.DelayRequests(time.Nanosecond, asking(c.step.asks), testenv.Times(1))
}

// wait lets a fault last.
func (c *cell) wait(d time.Duration) { <-time.After(d) }

// restart brings the server back and lets nobody in before everything it is told is seen.
func (c *cell) restart(keepData bool) {
	c.proxy.Refuse()
	c.aside.Refuse()
	c.srv.Restart(c.t, keepData)
	c.history.restarted(c.t, c.srv, keepData)
	c.aside.Heal()
}

func (c *cell) connect(p *testenv.Proxy, opTimeout time.Duration, around func(latchkey.Store) latchkey.Store) *service {
	if around == nil {
		around = plain
	}
	if c.barless {
		around = func(s latchkey.Store) latchkey.Store { return &barless{s} }
	}
	return connectBy(c.t, &redis.Options{Addr: p.Addr()}, around, latchkey.RenewedLease(faultLease), latchkey.OpTimeout(opTimeout))
}

func TestLeaseUnderFaults(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, s := range steps {
		for _, f := range troubles {
			for _, ctx := range contexts {
				all.Go(func() {
					room <- struct{}{}
					defer func() { <-room }()
					t.Run(s.name+"/"+f.name+"/"+ctx, func(t *testing.T) {
						c := &cell{t: t, step: s, trouble: f, ctx: ctx}
						c.run()
					})
				})
			}
		}
	}
	all.Wait()
}

func (c *cell) run() {
	t := c.t
	var opts []testenv.RedisOption
	if c.trouble.persist {
		opts = append(opts, testenv.Persist())
	}
	c.srv = testenv.Redis(t, opts...)
	c.proxy, c.aside = testenv.NewProxy(t, c.srv.Addr()), testenv.NewProxy(t, c.srv.Addr())
	c.history = recordHistory(t, c.srv, faultKey)
	c.victim, c.other, c.rival = c.connect(c.proxy, faultOp, c.around), c.connect(c.aside, 2*faultLease, nil), c.connect(c.aside, 2*faultLease, nil)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.ctx == "ctx past its deadline" {
		ctx = overdue{ctx}
	}
	letGo, inside, returned := make(chan struct{}), make(chan struct{}, 1), make(chan ending, 1)
	ran := false
	call := func(wait time.Duration) {
		f := latchkey.Action0(c.victim.WithLock(faultKey, latchkey.Wait(wait)), func(ctx context.Context) error {
			ran = true
			inside <- struct{}{}
			if c.blind {
				ctx = context.WithoutCancel(ctx)
			}
			c.runs.under(ctx, "victim", letGo)
			return nil
		})
		err := f(ctx)
		returned <- ending{err, time.Now()}
	}
	// A machine that is very busy lets an op timeout pass before the fault: then the call is made again.
	begin := func(wait time.Duration, what string, begun func(waited int) bool) {
		waited := c.victim.events.count(latchkey.EventWaiting)
		go call(wait)
		eventually(t, what, func() bool {
			select {
			case end := <-returned:
				t.Logf("before the fault: %v", end.err)
				waited = c.victim.events.count(latchkey.EventWaiting)
				go call(wait)
			default:
			}
			return begun(waited)
		})
	}

	var first *latchkey.Lease
	releaseFirst, firstGone := make(chan struct{}), make(chan struct{})
	if c.step.waits {
		first = c.other.take(t, faultKey)
		go func() {
			defer close(firstGone)
			c.runs.under(first.Context(), "first", releaseFirst)
			_ = first.Release(context.Background())
		}()
	}
	if err := c.victim.client.Ping(ctx).Err(); err != nil { // there is a connection already
		t.Fatal(err)
	}
	before := c.proxy.Counts().Faults()
	switch {
	case c.step.inside:
		begin(0, "the function runs", func(int) bool { return len(inside) > 0 })
	case c.step.name == handOver:
		begin(patience, "the caller waits", func(waited int) bool { return c.victim.events.count(latchkey.EventWaiting) > waited })
	}

	// The fault comes, and with it the moment of the step.
	fault := time.Now()
	c.trouble.begin(c)
	switch c.step.name {
	case "acquire":
		go call(0)
	case "release":
		close(letGo)
	case "subscribe":
		go call(patience)
	case handOver:
		close(releaseFirst)
	}
	c.proxy.AwaitFaults(t, before+1)
	if c.ctx != contexts[0] {
		cancel()
	}
	stopRival := c.compete()
	if c.trouble.end != nil {
		c.trouble.end(c)
	}
	c.proxy.Heal()
	if c.step.name == "renew" && c.ctx == contexts[0] && !c.blind {
		c.awaitRenewal()
	}
	if c.step.name == "subscribe" {
		close(releaseFirst)
	}
	if c.step.name != "release" {
		close(letGo)
	}
	end := hear(t, "the call has returned", returned)
	if c.step.waits {
		hear(t, "the first holder is done", firstGone)
	}
	c.endedWell(ran, end.err, end.at.Sub(fault))
	over := time.Now()
	stopRival()

	c.othersGetIn(over)
	if c.trouble.replay {
		c.replay(ran)
	}
	c.nothingStays(over)
	c.startedWell()
	c.history.flush(t)
	for _, v := range c.history.violations(c.runs.list(), faultLease) {
		c.failf("%s", v)
	}
	if len(c.history.holds) == 0 {
		t.Error("void: the history saw nobody hold the lock")
	}
}

// compete has another process take the lock again and again, from now until stop is called.
func (c *cell) compete() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	f := latchkey.Action0(c.rival.WithLock(faultKey, latchkey.WaitForever()), func(ctx context.Context) error {
		briefly := make(chan struct{})
		close(briefly)
		c.runs.under(ctx, "rival", briefly)
		return nil
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = f(ctx) // a store that is down is a fault of the cell
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
