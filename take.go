package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// take gets one key for this caller: first its turn within the process, then the lock in the store.
func (l *Locks) take(ctx context.Context, full string, r *request) (*grant, error) {
	r.seen = false
	t := l.turns.TryEnter(full)
	var baton *grant
	switch {
	case r.wait == 0 && t != nil:
		return l.try(ctx, t, full, r, r.start)
	case r.wait == 0:
		return l.lookAndTry(ctx, full, r)
	case t == nil:
		r.waiting(ctx, l, full)
		t, baton, r.seen = l.turns.Enter(ctx, full, r.left(r.start))
		if t == nil && baton == nil && !r.seen && ctx.Err() == nil {
			// The wait is over, but whoever is ahead has no answer from the store yet: that much patience everybody has.
			return l.lookAndTry(ctx, full, r)
		}
		if t == nil {
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

// lookAndTry is take for a caller that does not wait for a holder, or not any more.
func (l *Locks) lookAndTry(ctx context.Context, full string, r *request) (*grant, error) {
	t, err := l.look(ctx, full, r)
	if t == nil {
		return nil, err
	}
	return l.try(ctx, t, full, r, watchdog.Now())
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

// try asks for a lock, from now on, without waiting for its holder. Only a store that fails is asked again, for one op timeout.
func (l *Locks) try(ctx context.Context, t *turn, full string, r *request, now watchdog.Reading) (*grant, error) {
	g := l.newGrant(full, t, r)
	g.owner = l.newOwner()
	fast := r.reserve() == 0
	pause := firstRetry
	for sent := now; ; sent = watchdog.Now() {
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
		if !l.again(ctx, now, sent, &pause, op) {
			l.abandonFor(ctx, g, sent, op.Err)
			return nil, storeError{OpAcquire, g.key(), op.Err}
		}
	}
}

// again decides whether a request that failed is worth repeating, and pauses before that. The store has been failing since
// began; sent is when it was asked for the last time.
func (l *Locks) again(ctx context.Context, began, sent watchdog.Reading, pause *time.Duration, op Op) bool {
	if op.Final || ctx.Err() != nil || l.late(began, sent, watchdog.Now(), *pause) || !sleep(ctx, *pause) {
		return false
	}
	*pause *= 2
	return true
}

// late reports whether a store that has been failing since began has had its op timeout: another try, after the pause, may take
// as long as the one that left at sent.
func (l *Locks) late(began, sent, now watchdog.Reading, pause time.Duration) bool {
	return now.Sub(began)+pause+now.Sub(sent) >= l.opTimeout
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
