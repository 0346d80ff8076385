//go:build unix

package itest

import (
	"context"
	"errors"
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
	barless       bool // the victim's store can't bar an owner
	blocked       bool // somebody else was, after a late copy
	acquireLost   bool // what was swallowed asked for the lock; known once the fault has happened
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

func (c *cell) connect(p *testenv.Proxy, opTimeout time.Duration) *service {
	around := plain
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
	c.victim, c.other, c.rival = c.connect(c.proxy, faultOp), c.connect(c.aside, 2*faultLease), c.connect(c.aside, 2*faultLease)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.ctx == "ctx past its deadline" {
		ctx = overdue{ctx}
	}
	letGo, inside, returned := make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	ran := false
	call := func(wait time.Duration) {
		f := latchkey.Action0(c.victim.WithLock(faultKey, latchkey.Wait(wait)), func(ctx context.Context) error {
			ran = true
			inside <- struct{}{}
			c.runs.under(ctx, "victim", letGo)
			return nil
		})
		returned <- f(ctx)
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
		go call(0)
		hear(t, "the function runs", inside)
	case c.step.name == handOver:
		go call(patience)
		c.victim.events.await(t, latchkey.EventWaiting, 1)
	}

	// The fault comes, and with it the moment of the step.
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
	if c.step.name == "subscribe" {
		close(releaseFirst)
	}
	if c.step.name != "release" {
		close(letGo)
	}
	err := hear(t, "the call has returned", returned)
	if c.step.waits {
		hear(t, "the first holder is done", firstGone)
	}
	if !ran && !errors.Is(err, latchkey.ErrBusy) && !errors.Is(err, latchkey.ErrStore) {
		t.Errorf("the function did not run and the call returned %v", err)
	}
	over := time.Now()
	stopRival()

	c.othersGetIn(over)
	if c.trouble.replay {
		c.replay(ran)
	}
	c.nothingStays(over)
	c.history.flush(t)
	for _, v := range c.history.violations(c.runs.list(), faultLease) {
		t.Error(v)
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

// replay sends what was swallowed, and then somebody else must get in with one more round trip.
func (c *cell) replay(ran bool) {
	if !c.barless && (c.acquireLost || c.step.name == "release") {
		bars := "{" + full(faultKey) + "}:x"
		eventually(c.t, "the owner of what was given up is barred", func() bool {
			return c.srv.Do(c.t, "EXISTS", bars) == int64(1)
		})
	}
	// Those who competed may still be giving up what crossed their end.
	eventually(c.t, "nobody holds the lock or queues for it", func() bool {
		return c.srv.Do(c.t, "EXISTS", full(faultKey), queueOf(faultKey)) == int64(0)
	})
	if answers := c.proxy.Replay(c.t); len(answers) == 0 {
		c.t.Error("void: nothing was replayed")
	}
	lease, err := c.other.Acquire(context.Background(), faultKey)
	if c.blocked = err != nil; c.blocked && c.barless {
		return
	}
	if err != nil {
		c.t.Errorf("after the late copy reached the server (function ran: %t): %v; the key is %q's",
			ran, err, look(c.t, c.srv, faultKey).owner)
		return
	}
	release(c.t, lease)
}

// othersGetIn checks how long somebody else is blocked after everything.
func (c *cell) othersGetIn(over time.Time) {
	bound := prompt
	if c.trouble.crash {
		bound += faultLease
	}
	lease, err := c.other.Acquire(context.Background(), faultKey, latchkey.Wait(patience))
	if err != nil {
		c.t.Errorf("somebody else: %v", err)
		return
	}
	if blocked := time.Since(over); blocked > bound {
		c.t.Errorf("somebody else was blocked for %v, more than %v", blocked, bound)
	}
	release(c.t, lease)
}

// nothingStays checks that the server is empty once the last lease would have ended.
func (c *cell) nothingStays(over time.Time) {
	var keys []string
	for time.Since(over) < faultLease+3*time.Second {
		if keys = c.srv.Keys(c.t); len(keys) == 0 {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	what := ""
	for _, k := range keys {
		what += fmt.Sprintf(" %s (%v ms left)", k, c.srv.Do(c.t, "PTTL", k))
	}
	c.t.Errorf("%v after the call had returned the server still has%s", time.Since(over), what)
}

// barless is a store that can't bar an owner: what was given up is only taken back again and again.
type barless struct{ latchkey.Store }

// Capabilities implements [latchkey.Store].
func (s *barless) Capabilities() latchkey.Capabilities {
	caps := s.Store.Capabilities()
	caps.Bars = false
	return caps
}

// The control of the late replays: without bars a late copy locks somebody else out.
func TestLateCopyIsSeenToBlockIfItsOwnerIsNotBarred(t *testing.T) {
	t.Parallel()
	blocked := 0
	for range 3 {
		for _, f := range troubles {
			if f.replay {
				c := &cell{t: t, step: steps[0], trouble: f, ctx: contexts[1], barless: true}
				c.run()
				if c.blocked {
					blocked++
				}
			}
		}
	}
	if blocked == 0 {
		t.Error("a copy that arrived after the release blocked nobody, though nothing was done about it")
	}
}
