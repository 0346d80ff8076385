package latchkey

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

const (
	// pollPushed is how often a waiter asks again though it expects to be told: often enough that the store
	// knows it is alive and that a lost message costs little.
	pollPushed = 500 * time.Millisecond
	// pollBlind is how often a waiter asks when nobody will tell it.
	pollBlind = 50 * time.Millisecond
	// grantFor is how long a lock handed to a waiter lives until the waiter answers: a few polls.
	grantFor = 2 * time.Second
	// firstRetry is the pause before the second try with a store that failed; it doubles.
	firstRetry = 5 * time.Millisecond
)

// contend waits for the store to give the lock, as this process's only contender for the key. baton is what the one
// before left: nil, a lock to be let go in favour of whoever is next in the store's queue, or a place in that queue.
func (l *Locks) contend(ctx context.Context, t *turn, baton *grant, full string, r *request) (*grant, error) {
	c := contest{l: l, r: r, prev: ""}
	switch {
	case baton == nil:
		c.g = l.newGrant(full, t, r)
		c.g.owner = l.newOwner()
		c.fast = r.reserve() == 0
	case baton.pending:
		c.g = baton
		c.g.fixed, c.g.item.Fixed, c.g.item.Lease = r.fixed, r.fixed, r.lease
	default:
		c.g = l.newGrant(full, t, r)
		c.g.owner = l.newOwner()
		c.prev = baton.owner
		l.dog.Remove(&baton.item)
		c.old = baton
	}
	return c.run(ctx)
}

// contest is one process's attempt at one key.
type contest struct {
	l    *Locks
	g    *grant
	r    *request
	old  *grant // the grant to let go first
	prev string // its owner
	fast bool

	sent   watchdog.Reading // when the last request left
	failed watchdog.Reading // when the store began to fail, zero if it answers
	pause  time.Duration
}

func (c *contest) run(ctx context.Context) (*grant, error) {
	l, g, r := c.l, c.g, c.r
	if g.pending {
		// Somebody asked a moment ago; the answer may be here already.
		select {
		case push := <-g.wake:
			if l.claim(g, r, push) {
				return g, nil
			}
		default:
		}
	}
	for {
		op := c.ask(ctx)
		now := watchdog.Now()
		var pause time.Duration
		switch {
		case op.OK:
			l.settle(g)
			g.token, g.reserved = op.Token, r.reserve()
			l.own(g, c.sent)
			return g, nil
		case op.Err != nil:
			if c.failed.IsZero() {
				c.failed, c.pause = c.sent, firstRetry
				g.turn.Hide()
			}
			if op.Final || ctx.Err() != nil || l.late(c.failed, c.sent, now, c.pause) {
				return nil, c.giveUp(ctx, now, op)
			}
			pause, c.pause = c.pause, c.pause*2
		default:
			r.seen, c.failed = true, watchdog.Reading{}
			if c.fast {
				c.fast = false
				continue
			}
			g.queuedAt, g.ticket = c.sent, op.Ticket
			g.showBusy(c.sent, op.Remaining)
			r.waiting(ctx, l, g.full)
			pause = l.pollPause(op)
		}
		if left := r.left(now); left >= 0 {
			if left == 0 {
				return nil, c.giveUp(ctx, now, op)
			}
			pause = min(pause, left)
		}
		timer := time.NewTimer(pause)
		select {
		case push := <-g.wake:
			timer.Stop()
			if l.claim(g, r, push) {
				return g, nil
			}
		case <-ctx.Done():
			timer.Stop()
			return nil, c.giveUp(ctx, watchdog.Now(), op)
		case <-timer.C:
		}
	}
}

// ask asks the store for the lock, with a place in its queue if somebody else has it.
func (c *contest) ask(ctx context.Context) Op {
	l, g, r := c.l, c.g, c.r
	op := Op{Kind: OpAcquire, Key: g.full, Owner: g.owner, Lease: r.lease, Prev: c.prev, Tokens: r.reserve(), Fast: c.fast}
	if !c.fast {
		if !g.pending {
			g.pending, g.grant = true, min(grantFor, r.lease)
			l.expect(g)
		}
		op.Queue, op.Grant = true, g.grant
	}
	c.sent = watchdog.Now()
	op = l.ask(ctx, op)
	switch {
	case op.Err != nil:
		g.unsure = true
		if c.old != nil {
			l.undo.add(c.old, c.sent, true)
			c.old = nil
		}
		c.fast = false
	default:
		if c.old != nil && c.old.unsure {
			l.undo.add(c.old, c.sent, true)
		}
		c.old, c.prev = nil, ""
	}
	return op
}

// giveUp ends the contest without the lock. The place in the store's queue goes to the next local waiter, or is
// given up.
func (c *contest) giveUp(ctx context.Context, now watchdog.Reading, op Op) error {
	l, g, r := c.l, c.g, c.r
	var err error
	cause := context.Cause(ctx)
	switch {
	case r.seen && (cause != nil || op.Err == nil || !op.Final && r.left(now) == 0):
		err = r.busy(g.key(), now, g.remaining(now), cause)
	case cause != nil:
		err = storeError{OpAcquire, g.key(), cause}
	default:
		l.abandonFor(ctx, g, c.sent, op.Err)
		return storeError{OpAcquire, g.key(), op.Err}
	}
	l.abandon(g, c.sent)
	return err
}

// claim takes a lock that the store has granted while we waited. It reports whether the caller may go ahead at once;
// otherwise it has to ask the store again, which then says yes.
//
// A push with the ticket of the last refusal tells of a grant that was made after that refusal was asked for, and the
// grant lives for grantFor: that bounds the local deadline from below. The full lease is asked for in the background.
// A push with another ticket is late news of a grant that has run out; one with none is a hint and grants nothing.
func (l *Locks) claim(g *grant, r *request, push Push) bool {
	now := watchdog.Now()
	end := g.queuedAt.Add(g.grant - g.grant/100)
	if push.Owner == "" || push.Ticket == 0 || push.Ticket != g.ticket || r.fixed || r.reserve() > 0 || -now.Sub(end) < g.grant/2 {
		return false
	}
	l.settle(g)
	g.ours, g.pending, g.since = true, false, now
	g.item.Deadline.Set(end)
	l.dog.AddUntil(&g.item, now)
	g.turn.Show(g)
	return true
}

// pollPause is how long to wait before asking again about a lock that is busy.
func (l *Locks) pollPause(op Op) time.Duration {
	pause := pollBlind
	if l.caps.wakes() && !op.Foreign {
		pause = pollPushed
	}
	pause -= rand.N(pause / 4) //nolint:gosec // only spreads the polls
	if op.Remaining > 0 {
		pause = min(pause, op.Remaining+time.Millisecond)
	}
	return pause
}
