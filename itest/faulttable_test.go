//go:build unix

package itest

import (
	"regexp"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// asking tells requests by what they ask for. A proxy sees them as they are on the line.
func asking(pattern string) testenv.FaultOption {
	re := regexp.MustCompile(`(?is)` + pattern)
	return testenv.Matching(re.Match)
}

const (
	script       = `evalsha?\r\n\$\d+\r\n[^\r]+\r\n\$1\r\n` // and the number of its keys
	askAcquire   = `(\r\nnx\r\n|` + script + `5\r\n)`
	askList      = script + `6\r\n` // three locks
	askRenew     = script + `1\r\n`
	askRelease   = script + `3\r\n`
	askSubscribe = `subscribe\r\n`
)

// step is the operation that a fault befalls.
type step struct {
	name   string
	asks   string
	waits  bool // somebody else holds the lock first, and lets it go later
	inside bool // the function runs when the fault comes
}

var steps = []step{
	{name: "acquire", asks: askAcquire},
	{name: "renew", asks: askRenew, inside: true},
	{name: "release", asks: askRelease, inside: true},
	{name: "subscribe", asks: askSubscribe, waits: true},
	// A waiter is told, and asks for the full lease then.
	{name: handOver, asks: "(" + askAcquire + "|" + askRenew + ")", waits: true},
}

const handOver = "hand-over"

// trouble is a fault: what brings it on, and what ends it.
type trouble struct {
	name    string
	persist bool
	crash   bool // it may cost a lease: a copy of a request arrives when its owner is not barred any more
	fails   bool // a renewal does
	loses   bool // a lease
	replay  bool
	begin   func(c *cell)
	end     func(c *cell)
}

var troubles = []trouble{
	{name: "delay", fails: true, begin: func(c *cell) {
		const d = faultOp + 100*time.Millisecond
		if c.step.name == handOver { // the push
			c.proxy.DelayReplies(d)
			return
		}
		c.proxy.DelayRequests(d, asking(c.step.asks), testenv.Times(2))
	}},
	{name: "cut", fails: true, begin: func(c *cell) {
		if c.step.name == handOver { // the subscription too
			c.proxy.Cut()
			return
		}
		c.proxy.CutRequests(asking(c.step.asks), testenv.Times(1))
	}},
	{name: "swallowed request", fails: true, begin: func(c *cell) { c.proxy.SwallowRequests(asking(c.step.asks), testenv.Times(1)) }},
	{name: "swallowed reply", fails: true, begin: func(c *cell) {
		if c.step.name == handOver { // the push too
			c.proxy.SwallowReplies()
			return
		}
		c.proxy.SwallowReplies(asking(c.step.asks), testenv.Times(1))
	}},
	{name: "late replay", replay: true, fails: true, begin: func(c *cell) {
		c.proxy.SwallowRequests(testenv.Times(1), c.notice(askAcquire))
	}},
	{name: "pause shorter than the lease", fails: true,
		begin: func(c *cell) { c.detectAny(); c.srv.Pause(c.t) },
		end:   func(c *cell) { c.wait(faultLease / 4); c.srv.Resume(c.t) }},
	{name: "CLIENT PAUSE", fails: true,
		begin: func(c *cell) {
			const d = faultLease * 6 / 10 // beyond the first renewal
			c.detectAny()
			c.srv.PauseClients(c.t, d)
			c.awake = time.Now().Add(d)
		},
		end: func(c *cell) { c.wait(time.Until(c.awake)) }},
	{name: "pause longer than the lease", crash: true, fails: true, loses: true,
		begin: func(c *cell) { c.detectAny(); c.srv.Pause(c.t) },
		end:   func(c *cell) { c.wait(faultLease + faultLease/4); c.srv.Resume(c.t) }},
	{name: "kill and restart empty", loses: true,
		begin: func(c *cell) { c.detect(); c.srv.Kill(c.t); c.history.died(c.t) },
		end:   func(c *cell) { c.restart(testenv.LoseData) }},
	{name: "restart with data", persist: true,
		begin: func(c *cell) { c.detect(); c.srv.Kill(c.t); c.history.died(c.t) },
		end:   func(c *cell) { c.restart(testenv.KeepData) }},
	{name: "SCRIPT FLUSH", begin: func(c *cell) { c.srv.FlushScripts(c.t); c.detect() }},
}

// end of the caller's context while the fault lasts.
var contexts = []string{"ctx alive", "ctx cancelled", "ctx past its deadline"}
