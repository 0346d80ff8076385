package latchkey

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

var (
	errTooLate = errors.New("the answer came after the lease had ended")
	errClosed  = errors.New("these Locks are closed")
)

// request is one caller's wish for a lock.
type request struct {
	holdConfig
	template string
	start    watchdog.Reading
	waits    bool // the observer has heard that it waits
	apart    bool // for a transaction that is yet to begin: one that is open does not carry the lock
	seen     bool // somebody else had the lock when it came
}

// left is how much of the wait is left; negative if it has no end.
func (r *request) left(now watchdog.Reading) time.Duration {
	if r.wait == forever {
		return forever
	}
	return max(r.wait-now.Sub(r.start), 0)
}

// waiting tells the observer, once, that the caller waits.
func (r *request) waiting(ctx context.Context, l *Locks, full string) {
	if l.observer != nil && !r.waits {
		r.waits = true
		l.observe(ctx, EventWaiting, r.template, full[len(l.prefix):], 0, nil)
	}
}

// busy makes the error for a lock that somebody else holds.
func (r *request) busy(key string, now watchdog.Reading, retryAfter time.Duration, cause error) error {
	e := &BusyError{Key: key, RetryAfter: max(retryAfter, 0), Cause: cause}
	if r.wait != 0 {
		e.Waited = now.Sub(r.start)
	}
	return e
}

// acquire takes one lock or several. many, if not empty, is deduplicated and sorted, with namespace, like full.
func (l *Locks) acquire(ctx context.Context, full string, many []string, r *request) (*Lease, error) {
	r.start = watchdog.Now()
	if len(many) > 0 {
		full = many[0]
	}
	lease, err := l.acquireAny(ctx, full, many, r)
	if err != nil {
		l.observe(ctx, EventRefused, r.template, full[len(l.prefix):], watchdog.Now().Sub(r.start), err)
	}
	return lease, err
}

func (l *Locks) acquireAny(ctx context.Context, full string, many []string, r *request) (*Lease, error) {
	if l.closed.Load() {
		return nil, storeError{OpAcquire, full[len(l.prefix):], errClosed}
	}
	if ctx.Err() != nil {
		return nil, storeError{OpAcquire, full[len(l.prefix):], context.Cause(ctx)}
	}
	if len(many) > 1 {
		return l.acquireMany(ctx, many, r)
	}
	near, level := carried(ctx), levelOf(ctx)
	h, err := l.enterHeld(ctx, near, level, full, r)
	if err != nil {
		return nil, err
	}
	if h != nil {
		le := &Lease{}
		le.one[0] = h
		le.init(ctx, l, near, r)
		l.observe(ctx, EventReentered, r.template, h.g.key(), 0, nil)
		return level.adopt(ctx, le, nil, r)
	}
	if err := level.admits(ctx, full[len(l.prefix):], r); err != nil {
		return nil, err
	}
	g, now, err := l.takeGood(ctx, full, r)
	if err != nil {
		return nil, err
	}
	s := &single{}
	le := &s.lease
	le.one[0] = &s.hold
	l.begin(ctx, &s.hold, g, r, now)
	le.init(ctx, l, near, r)
	if level == nil {
		return le, nil
	}
	return level.adopt(ctx, le, le.holds, r)
}

// init makes a lease of the holds it has in le.one or le.holds.
func (le *Lease) init(ctx context.Context, l *Locks, near *leaseCtx, r *request) {
	le.locks, le.template = l, r.template
	if le.holds == nil {
		le.holds = le.one[:]
	}
	le.ctx = leaseCtx{parent: ctx, lease: le, outer: near}
}

// begin puts a hold on a grant.
func (l *Locks) begin(ctx context.Context, h *hold, g *grant, r *request, now watchdog.Reading) {
	h.g, h.refs, h.started, h.template = g, 1, now, r.template
	if g.reserved > 0 {
		h.token, h.minted = g.token+int64(g.passes), true
	}
	if r.maxHold > 0 {
		h.limit = &watchdog.Item{Lease: r.maxHold, Fixed: true, Ref: h}
		h.limit.Deadline.Set(now.Add(r.maxHold))
		l.dog.AddUntil(h.limit, now)
	}
	g.hold.Store(h)
	if g.lost.Load() {
		h.lose(lostError{g.key(), "lost while it was handed over"})
	}
	if l.observer != nil && g.proof == "" {
		kind := EventAcquired
		if g.passes > 0 {
			kind = EventHandedOver
		}
		l.observe(ctx, kind, r.template, g.key(), now.Sub(r.start), nil)
	}
}

// find looks for a hold on the key among the leases that the context carries, and enters it.
func (c *leaseCtx) find(store Store, full string, now watchdog.Reading) *hold {
	for ; c != nil; c = c.outer {
		if c.lease.released.Load() {
			continue
		}
		for _, h := range c.lease.holds {
			if h.g.full == full && h.g.locks.store == store && h.enter(now) {
				return h
			}
		}
	}
	return nil
}

// takeGood takes one key and makes sure that it is worth having: the answer may have come after the caller, or the
// lease, had ended.
func (l *Locks) takeGood(ctx context.Context, full string, r *request) (*grant, watchdog.Reading, error) {
	for {
		g, err := l.take(ctx, full, r)
		now := watchdog.Now()
		if err != nil {
			return nil, now, err
		}
		if ctx.Err() == nil && g.good(now) {
			return g, now, nil
		}
		_ = l.giveBack(g, now)
		if err := r.tooLate(ctx, g.key(), now); err != nil {
			return nil, now, err
		}
	}
}

// good reports whether a grant is still worth having.
func (g *grant) good(now watchdog.Reading) bool {
	return !g.lost.Load() && !g.item.Deadline.Passed(now)
}

// tooLate is the error for a lock that came when the caller or the lease had ended; nil if there is time for another try.
func (r *request) tooLate(ctx context.Context, key string, now watchdog.Reading) error {
	switch {
	case ctx.Err() != nil && r.seen:
		return r.busy(key, now, 0, context.Cause(ctx))
	case ctx.Err() != nil:
		return storeError{OpAcquire, key, context.Cause(ctx)}
	case r.left(now) == 0:
		return storeError{OpAcquire, key, errTooLate}
	}
	return nil
}

// remaining is how long the present holder's lease lasts, as far as this process knows; 0 if it does not. The holder is
// a caller of this process, or whoever it was that the store named when it refused the grant.
func (g *grant) remaining(now watchdog.Reading) time.Duration {
	if g == nil {
		return 0
	}
	return max(g.item.Deadline.Left(now), 0)
}
