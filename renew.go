package latchkey

import (
	"cmp"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// maxTogether is how many operations of the background share a pipeline.
const maxTogether = 1000

// renew asks the store for new leases of everything that is due. Leases of about the same length share a batch: a long
// one must not keep a short one waiting, nor be given up as early.
//
// Whoever has a lease to renew also listens: a connection that breaks may mean that the store has lost the lease. A lock
// that is let go before its first renewal costs no subscription.
func (l *Locks) renew(items []*watchdog.Item) {
	l.waiting.Lock()
	l.listen()
	l.waiting.Unlock()
	slices.SortFunc(items, func(a, b *watchdog.Item) int { return cmp.Compare(a.Lease, b.Lease) })
	for len(items) > 0 {
		n := 1
		for n < len(items) && n < maxTogether && items[n].Lease <= 4*items[0].Lease {
			n++
		}
		batch := items[:n:n]
		items = items[n:]
		if len(items) > 0 {
			go l.renewBatch(batch)
		} else {
			l.renewBatch(batch)
		}
	}
}

func (l *Locks) renewBatch(items []*watchdog.Item) {
	ops := make([]Op, len(items))
	timeout := l.opTimeout
	for i, it := range items {
		g, _ := it.Ref.(*grant) // what else is watched is fixed, and never renewed
		ops[i] = Op{Kind: OpRenew, Key: g.full, Owner: g.owner, Lease: it.Lease}
		if g.proof != "" {
			ops[i] = Op{Kind: OpProve, Key: g.full, Owner: g.proof}
		}
		// A store that hangs must leave time for another try before the lease ends.
		timeout = min(timeout, max(it.Lease/4, 5*time.Millisecond))
	}
	sent := watchdog.Now()
	ops = l.askAll(ops, timeout)
	took := watchdog.Now().Sub(sent)
	for i, it := range items {
		kind := EventRenewed
		g, _ := it.Ref.(*grant)
		switch op := &ops[i]; {
		case op.Err != nil:
			l.dog.Retry(it)
			kind = EventRenewFailed
		case !op.OK:
			if l.dog.Remove(it) {
				_ = g.gone()
			}
			continue
		case g.proof != "":
			l.dog.ExtendFor(it, sent, min(op.Remaining, proofLease))
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
