package latchkey

import (
	"context"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

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
