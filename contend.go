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

// take gets one key for this caller: first its turn within the process, then the lock in the store.
func (l *Locks) take(ctx context.Context, full string, r *request) (*grant, error) {
	r.seen = false
	if r.wait == 0 {
		t, err := l.look(ctx, full, r)
		if t == nil {
			return nil, err
		}
		return l.try(ctx, t, full, r)
	}
	t := l.turns.TryEnter(full)
	var baton *grant
	if t == nil {
		r.waiting(ctx, l, full)
		if t, baton, r.seen = l.turns.Enter(ctx, full, r.left(r.start)); t == nil {
			return nil, l.turnedAway(ctx, baton, full, r)
		}
	}
	switch {
	case ctx.Err() != nil:
		if baton == nil {
			t.Leave()
		} else {
			l.passOn(baton)
		}
		return nil, l.turnedAway(ctx, nil, full, r)
	case baton != nil && baton.passable(&r.holdConfig, watchdog.Now()):
		baton.passes++
		return baton, nil
	}
	return l.contend(ctx, t, baton, full, r)
}

// look is for a caller that does not wait for a holder: it gets the key's turn if nobody in this process uses the key, or the
// answer that whoever does has got from the store by then.
func (l *Locks) look(ctx context.Context, full string, r *request) (*turn, error) {
	t, present := l.turns.Look(ctx, full, l.opTimeout)
	if t != nil {
		return t, nil
	}
	r.seen = present != nil && present.failed == nil
	return nil, l.turnedAway(ctx, present, full, r)
}

// turnedAway is the error for a caller who did not get as far as the store. present is what the one ahead has, or why nobody
// can have the lock. Without having seen a holder nobody may say that there is one.
func (l *Locks) turnedAway(ctx context.Context, present *grant, full string, r *request) error {
	key, cause := full[len(l.prefix):], context.Cause(ctx)
	switch {
	case cause == nil && present != nil && present.failed != nil:
		return storeError{OpAcquire, key, present.failed}
	case r.seen:
		now := watchdog.Now()
		return r.busy(key, now, present.remaining(now), cause)
	case cause != nil:
		return storeError{OpAcquire, key, cause}
	}
	return storeError{OpAcquire, key, errNoAnswer}
}

func (l *Locks) newGrant(full string, t *turn, r *request) *grant {
	g := &grant{locks: l, full: full, turn: t, fixed: r.fixed}
	g.item.Lease, g.item.Fixed, g.item.Ref = r.lease, r.fixed, g
	return g
}

// own notes that the store gave the lock, as asked for at sent.
func (l *Locks) own(g *grant, sent watchdog.Reading) {
	g.ours, g.pending, g.since = true, false, sent
	l.dog.Add(&g.item, sent)
	g.turn.Show(g)
}

// try asks for a lock without waiting for its holder. Only a store that fails is asked again, for one op timeout.
func (l *Locks) try(ctx context.Context, t *turn, full string, r *request) (*grant, error) {
	g := l.newGrant(full, t, r)
	g.owner = l.newOwner()
	fast := r.reserve() == 0
	pause := firstRetry
	for sent := r.start; ; sent = watchdog.Now() {
		op := l.ask(ctx, Op{Kind: OpAcquire, Key: full, Owner: g.owner, Lease: r.lease, Fast: fast, Tokens: r.reserve()})
		switch {
		case op.OK:
			g.token, g.reserved = op.Token, r.reserve()
			l.own(g, sent)
			return g, nil
		case op.Err == nil && fast:
			fast = false // busy, it seems: ask for the details
			continue
		case op.Err == nil:
			g.showBusy(sent, op.Remaining)
			l.abandon(g, sent)
			return nil, r.busy(g.key(), watchdog.Now(), op.Remaining, nil)
		}
		g.unsure, fast = true, false
		if !l.again(ctx, r.start, sent, &pause, op) {
			l.abandonFor(ctx, g, sent, op.Err)
			return nil, storeError{OpAcquire, g.key(), op.Err}
		}
	}
}

// again decides whether a request that failed is worth repeating, and pauses before that. The store has been failing since
// began; sent is when it was asked for the last time.
func (l *Locks) again(ctx context.Context, began, sent watchdog.Reading, pause *time.Duration, op Op) bool {
	now := watchdog.Now()
	// Another try may take as long as this one.
	late := now.Sub(began)+*pause+now.Sub(sent) >= l.opTimeout
	if op.Final || ctx.Err() != nil || late || !sleep(ctx, *pause) {
		return false
	}
	*pause *= 2
	return true
}

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
			// Another try may take as long as this one.
			late := now.Sub(c.failed)+c.pause+now.Sub(c.sent) >= l.opTimeout
			if op.Final || ctx.Err() != nil || late {
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

// abandon lets a claim go that is not a lock yet, as far as is known.
func (l *Locks) abandon(g *grant, sent watchdog.Reading) {
	if g.pending && !g.unsure && g.turn.Pass(g) {
		return
	}
	l.takeBack(g, sent)
	g.turn.Leave()
}

// abandonFor is abandon for a store that has failed for an op timeout, or for good. It sends everybody away who waits
// for the key in this process: each would find the same, one op timeout after the other.
func (l *Locks) abandonFor(ctx context.Context, g *grant, sent watchdog.Reading, err error) {
	l.takeBack(g, sent)
	if ctx.Err() != nil { // then that is why
		g.turn.Leave()
		return
	}
	g.turn.Dismiss(&grant{failed: err})
}

// takeBack gives up what a claim may have in the store.
func (l *Locks) takeBack(g *grant, sent watchdog.Reading) {
	if g.pending || g.unsure {
		l.settle(g)
		l.undo.add(g, sent, g.unsure)
	}
}

// passOn gives a baton that came too late to the next one.
func (l *Locks) passOn(g *grant) {
	if g.ours {
		_ = l.giveBack(g, watchdog.Now())
		return
	}
	l.abandon(g, g.queuedAt)
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

// reserve is how many tokens to mint with the acquire: one for each local caller that may have the lock in turn.
func (r *request) reserve() int64 {
	if !r.mint {
		return 0
	}
	if r.fixed {
		return 1
	}
	return maxPasses + 1
}

// giveBack lets go of a grant that the caller is done with. The store is asked on nobody's context: the lock must go
// also when the caller's has ended.
func (l *Locks) giveBack(g *grant, now watchdog.Reading) error {
	if g.proof != "" {
		l.dog.Remove(&g.item)
		return nil
	}
	if g.lost.Load() {
		l.dog.Remove(&g.item)
		l.undo.add(g, now, false)
		g.turn.Leave()
		return nil
	}
	if g.turn.Pass(g) {
		return nil
	}
	l.dog.Remove(&g.item)
	op := l.ask(backgroundCtx, Op{Kind: OpRelease, Key: g.full, Owner: g.owner})
	var err error
	switch {
	case op.Err != nil:
		err = storeError{OpRelease, g.key(), op.Err}
	case !op.OK:
		err = lostError{g.key(), "the store had forgotten it when it was released"}
	}
	if op.Err != nil || g.unsure {
		l.undo.add(g, now, true)
	}
	g.turn.Leave()
	return err
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
