package latchkey

import (
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// maxRenewals is how many renewals share a pipeline.
const maxRenewals = 1000

// renew asks the store for new leases of everything that is due, in one batch.
//
// Whoever has a lease to renew also listens: a connection that breaks may mean that the store has lost the lease. A lock
// that is let go before its first renewal costs no subscription.
func (l *Locks) renew(items []*watchdog.Item) {
	l.waiting.Lock()
	l.listen()
	l.waiting.Unlock()
	for len(items) > 0 {
		n := min(len(items), maxRenewals)
		l.renewBatch(items[:n])
		items = items[n:]
	}
}

func (l *Locks) renewBatch(items []*watchdog.Item) {
	ops := make([]Op, len(items))
	timeout := l.opTimeout
	for i, it := range items {
		g := it.Ref.(*grant)
		ops[i] = Op{Kind: OpRenew, Key: g.full, Owner: g.owner, Lease: it.Lease}
		// A store that hangs must leave time for another try before the lease ends.
		timeout = min(timeout, max(it.Lease/4, 5*time.Millisecond))
	}
	sent := watchdog.Now()
	ops = l.askAll(ops, timeout)
	took := watchdog.Now().Sub(sent)
	for i, it := range items {
		g, kind := it.Ref.(*grant), EventRenewed
		switch op := &ops[i]; {
		case op.Err != nil:
			l.dog.Retry(it)
			kind = EventRenewFailed
		case !op.OK:
			if l.dog.Remove(it) {
				_ = g.fail("the store has another holder or none")
			}
			continue
		default:
			l.dog.Extend(it, sent)
		}
		if l.observer != nil {
			l.observe(backgroundCtx, kind, g.template(), g.key(), took, ops[i].Err)
		}
	}
}

// expired hears of items that were not renewed in time and of holds that reached their bound.
func (l *Locks) expired(it *watchdog.Item) {
	switch ref := it.Ref.(type) {
	case *hold:
		ref.lose(ref.expiry())
	case *grant:
		ref.lost.Store(true) // before the look at hold: begin looks the other way round
		if h := ref.hold.Load(); h != nil {
			h.lose(h.expiry())
		}
	}
}

func (g *grant) template() string {
	if h := g.hold.Load(); h != nil {
		return h.template
	}
	return ""
}

// heard is told what the store pushes.
func (l *Locks) heard(push Push) {
	if push.Broken {
		l.dog.RenewAll()
		return
	}
	l.waiting.Lock()
	g := l.waiting.owners[push.Owner]
	l.waiting.Unlock()
	if g == nil {
		return
	}
	select {
	case <-g.wake: // older news
	default:
	}
	select {
	case g.wake <- push:
	default:
	}
}

// expect makes pushes for the grant's owner arrive.
func (l *Locks) expect(g *grant) {
	g.wake = make(chan Push, 1)
	l.waiting.Lock()
	defer l.waiting.Unlock()
	l.waiting.owners[g.owner] = g
	l.listen()
}

// listen makes pushes arrive, if the store has any. It is called with the mutex of waiting.
func (l *Locks) listen() {
	if l.waiting.stop == nil && l.caps.wakes() && !l.closed.Load() {
		l.waiting.stop = l.store.Listen(l.heard)
	}
}

// settle ends expect.
func (l *Locks) settle(g *grant) {
	if g.wake == nil {
		return
	}
	l.waiting.Lock()
	delete(l.waiting.owners, g.owner)
	l.waiting.Unlock()
}
