//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
)

// awaitRenewal lets the function go on until its lease has been renewed after the fault, or is lost.
func (c *cell) awaitRenewal() {
	renewed := c.victim.events.count(latchkey.EventRenewed)
	eventually(c.t, "the lease is renewed or lost", func() bool {
		return c.victim.events.count(latchkey.EventRenewed) > renewed || c.victim.events.count(latchkey.EventLost) > 0
	})
}

// endedWell checks how the victim's call ended, so long after the fault.
func (c *cell) endedWell(ran bool, err error, took time.Duration) {
	alive, lost := c.ctx == contexts[0], errors.Is(err, latchkey.ErrLeaseLost)
	cause := map[string]error{contexts[1]: context.Canceled, contexts[2]: context.DeadlineExceeded}[c.ctx]
	switch {
	case !ran && !errors.Is(err, latchkey.ErrBusy) && !errors.Is(err, latchkey.ErrStore):
		c.failf("the function did not run and the call returned %v", err)
	case !ran && cause != nil && c.step.waits && !errors.Is(err, cause):
		c.failf("the waiter's context ended and the call returned %v", err)
	case !ran && c.step.inside:
		c.failf("the function did not run: %v", err)
	case !ran && alive && c.step.waits && (errors.Is(err, latchkey.ErrBusy) || took < faultOp/3):
		// A store that is silent for long enough ends the wait, not the fault by itself.
		c.failf("a waiter gave up after %v: %v", took, err)
	case ran && err != nil && !lost:
		c.failf("the function ran and the call returned %v", err)
	case lost && !c.trouble.loses:
		c.failf("the lease could be kept and was lost: %v", err)
	}
	if c.step.name != "renew" || !alive || c.blind {
		return
	}
	failed, renewed := c.victim.events.count(latchkey.EventRenewFailed), c.victim.events.count(latchkey.EventRenewed)
	switch {
	case c.trouble.loses && !lost:
		c.failf("the lease was lost and the call returned %v", err)
	case !c.trouble.loses && renewed == 0:
		c.failf("the lease was not renewed after the fault")
	case c.trouble.fails && failed == 0:
		c.t.Error("void: no renewal failed")
	}
}

// startedWell checks that nobody's function was started without the lock: with a context that said so at once.
func (c *cell) startedWell() {
	for _, s := range c.runs.stillborn() {
		if errors.Is(s.cause, latchkey.ErrLeaseLost) && !c.trouble.loses || s.who == "victim" && c.ctx == contexts[0] {
			c.failf("the function of the %s was started with a context that had ended: %v", s.who, s.cause)
		}
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
		c.failf("after the late copy reached the server (function ran: %t): %v; the key is %q's",
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
		c.failf("somebody else: %v", err)
		return
	}
	if blocked := time.Since(over); blocked > bound {
		c.failf("somebody else was blocked for %v, more than %v", blocked, bound)
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
	c.failf("%v after the call had returned the server still has%s", time.Since(over), what)
}
