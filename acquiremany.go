package latchkey

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// acquireMany takes several locks, all or none. The order is that of the keys, for everybody, so that two callers never
// wait for each other: whoever waits for a key holds only keys that come before it.
func (l *Locks) acquireMany(ctx context.Context, keys []string, r *request) (*Lease, error) {
	le := &Lease{holds: make([]*hold, 0, len(keys))}
	near, level := carried(ctx), levelOf(ctx)
	fresh := make([]string, 0, len(keys))
	var grants []*grant
	var err error
	for _, key := range keys {
		var h *hold
		if h, err = l.enterHeld(ctx, near, level, key, r); err != nil {
			break
		}
		if h != nil {
			le.holds = append(le.holds, h)
		} else {
			fresh = append(fresh, key)
		}
	}
	if err == nil && len(fresh) > 0 {
		err = level.admits(ctx, fresh[0][len(l.prefix):], r)
	}
	if err == nil {
		grants, err = l.takeGoodMany(ctx, fresh, r)
	}
	var taken []*hold
	if err == nil {
		for _, g := range grants {
			h := &hold{}
			l.begin(ctx, h, g, r, watchdog.Now())
			le.holds = append(le.holds, h)
			taken = append(taken, h)
		}
		slices.SortFunc(le.holds, func(a, b *hold) int { return strings.Compare(a.g.full, b.g.full) })
	}
	if len(le.holds) > 0 {
		le.init(ctx, l, near, r)
	}
	if err != nil {
		if len(le.holds) > 0 {
			_, _ = le.release(ctx) // leaves what was re-entered
		}
		return nil, err
	}
	return level.adopt(ctx, le, taken, r)
}

// takeGoodMany takes several keys and makes sure that all are worth having at one moment: the lease of the first may have
// ended while the last was waited for.
func (l *Locks) takeGoodMany(ctx context.Context, keys []string, r *request) ([]*grant, error) {
	for {
		grants, err := l.takeMany(ctx, keys, r)
		if err != nil || len(grants) == 0 {
			return nil, err
		}
		now := watchdog.Now()
		if ctx.Err() == nil && !slices.ContainsFunc(grants, func(g *grant) bool { return !g.good(now) }) {
			return grants, nil
		}
		for _, g := range slices.Backward(grants) {
			_ = l.giveBack(g, now)
		}
		if err := r.tooLate(ctx, grants[0].key(), now); err != nil {
			return nil, err
		}
	}
}

// takeMany tries all keys at once, and if that fails and the caller waits, one after the other.
func (l *Locks) takeMany(ctx context.Context, keys []string, r *request) ([]*grant, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if l.caps.ManyKeys && len(keys) > 1 {
		grants, err := l.takeAtOnce(ctx, keys, r)
		if err == nil || r.wait == 0 || ctx.Err() != nil || errors.Is(err, ErrStore) {
			return grants, err
		}
	}
	grants := make([]*grant, 0, len(keys))
	for _, key := range keys {
		g, now, err := l.takeGood(ctx, key, r)
		if err != nil {
			for _, g := range slices.Backward(grants) {
				_ = l.giveBack(g, now)
			}
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// takeAtOnce takes all keys with one request, without waiting for any.
func (l *Locks) takeAtOnce(ctx context.Context, keys []string, r *request) ([]*grant, error) {
	owner := l.newOwner()
	grants := make([]*grant, 0, len(keys))
	for _, key := range keys {
		t, err := l.look(ctx, key, r)
		if err != nil {
			for _, g := range grants {
				g.turn.Leave()
			}
			return nil, err
		}
		g := l.newGrant(key, t, r)
		g.owner = owner
		grants = append(grants, g)
	}
	pause := firstRetry
	for began := watchdog.Now(); ; {
		sent := watchdog.Now()
		op := l.ask(ctx, Op{Kind: OpAcquire, Key: keys[0], More: keys[1:], Owner: owner, Lease: r.lease})
		for _, g := range grants {
			switch {
			case op.OK:
				l.own(g, sent)
			case op.Err != nil:
				g.unsure = true
			}
		}
		switch {
		case op.OK:
			return grants, nil
		case op.Err == nil:
			for _, g := range grants {
				l.abandon(g, sent)
			}
			return nil, r.busy(op.Busy[min(len(l.prefix), len(op.Busy)):], watchdog.Now(), op.Remaining, nil)
		case !l.again(ctx, began, sent, &pause, op):
			for _, g := range grants {
				l.abandonFor(ctx, g, sent, op.Err)
			}
			return nil, storeError{OpAcquire, keys[0][len(l.prefix):], op.Err}
		}
	}
}
