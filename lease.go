package latchkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Lease is one granted hold of a lock, or of several that were taken together. Its methods are safe for concurrent
// use. A lease must be released; until then the watchdog renews it.
type Lease struct {
	locks    *Locks
	holds    []*hold
	ctx      leaseCtx
	released atomic.Bool
	template string
	one      [1]*hold
	detached *detachment // nil unless it comes from Detach
}

// single is a hold and its first lease in one piece of memory.
type single struct {
	hold  hold
	lease Lease
}

// Key returns the key that is held, without the namespace; the first one if there are several.
func (le *Lease) Key() string { return le.holds[0].g.key() }

// Keys returns the keys that are held, without the namespace, in the order in which they were taken.
func (le *Lease) Keys() []string {
	keys := make([]string, len(le.holds))
	for i, h := range le.holds {
		keys[i] = h.g.key()
	}
	return keys
}

// Context returns the context for work under the lease. It descends from the context that the lease was acquired with
// and is cancelled when the lease is lost, with a cause that matches [ErrLeaseLost], and when it is released.
// Acquiring the same key with it, or with a context made from it, enters the lease again instead of waiting for it.
func (le *Lease) Context() context.Context { return &le.ctx }

// Release lets the lock go. It works also when ctx has ended: only ctx's values are used, and the exchange with the
// store has a timeout of its own. It returns nil if the lock was held until now, an error that matches [ErrLeaseLost] if
// it was lost before, and one that matches [ErrStore] if the store did not confirm; the release is then repeated in the
// background until the lease has ended. Only the first call does anything; later ones return nil.
func (le *Lease) Release(ctx context.Context) error {
	lost, failed := le.release(ctx)
	if overdue := le.detached.overdue(); overdue != nil {
		return overdue
	}
	if lost != nil {
		return lost
	}
	return failed
}

// Token returns the fencing token of the hold: a number that is larger for every new holder of the key, so that a
// system which remembers the largest one it saw can refuse a holder that was overtaken. All leases that share a hold
// have the same token. Unless the lock was acquired with [MintToken], the first call asks the store, bounded by ctx.
//
// Errors match [ErrLeaseLost] if the lock is not held any more and [ErrStore] if the store did not answer or mints no
// tokens.
func (le *Lease) Token(ctx context.Context) (int64, error) {
	if len(le.holds) != 1 {
		return 0, fmt.Errorf("latchkey: Token: the lease holds %d keys, each with tokens of its own; lock one key to get a token",
			len(le.holds))
	}
	if le.released.Load() {
		return 0, lostError{le.Key(), "it was released before Token was called"}
	}
	return le.holds[0].mintToken(ctx)
}

func (h *hold) mintToken(ctx context.Context) (int64, error) {
	h.tokens.Lock()
	defer h.tokens.Unlock()
	if !h.live(watchdog.Now()) {
		return 0, h.gone()
	}
	if h.minted {
		return h.token, nil
	}
	l := h.g.locks
	if h.g.proof != "" {
		return 0, errNoBorrowedTokens
	}
	if !l.caps.Tokens {
		return 0, storeError{OpToken, h.g.key(), errors.New("this store mints no tokens")}
	}
	if !h.claim(watchdog.Now()) { // the token will stand for this hold alone
		return 0, h.gone()
	}
	op := l.ask(ctx, Op{Kind: OpToken, Key: h.g.full, Owner: h.g.owner, Tokens: 1})
	if op.Err != nil {
		return 0, storeError{OpToken, h.g.key(), op.Err}
	}
	if !op.OK {
		return 0, h.g.gone()
	}
	h.token, h.minted = op.Token, true
	return h.token, nil
}

// claim makes the grant this hold's alone: it goes to nobody else in this process. It reports whether the hold is still good;
// the mutex keeps the grant from being handed over meanwhile.
func (h *hold) claim(now watchdog.Reading) bool {
	if !h.live(now) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != phaseHeld {
		return false
	}
	h.g.private.Store(true)
	return true
}

// release ends the lease; the last lease of a hold lets its grant go.
func (le *Lease) release(ctx context.Context) (lost, failed error) {
	if !le.released.CompareAndSwap(false, true) {
		return nil, nil
	}
	le.detached.stop()
	now := watchdog.Now()
	for _, h := range slices.Backward(le.holds) {
		last, gone := h.leave(&le.ctx, now)
		switch {
		case gone != nil:
			lost = gone
			if last && h.g.proof == "" {
				// If nobody has taken it yet, this saves the next one the rest of the lease.
				h.g.locks.undo.add(h.g, now, false)
			}
		case last:
			if err := h.letGo(ctx, now); err != nil {
				failed = err
			}
		}
	}
	le.ctx.cancel(le.cause())
	return lost, failed
}

// cause is why a lease that was released ended.
func (le *Lease) cause() error {
	if overdue := le.detached.overdue(); overdue != nil {
		return overdue
	}
	return errReleased
}

// finish releases the lease of a function that is over and joins a loss to the function's error.
func (le *Lease) finish(err *error) {
	switch lost, _ := le.release(le.ctx.parent); {
	case lost == nil:
	case *err == nil:
		*err = lost
	default:
		*err = errors.Join(*err, lost)
	}
}

// letGo ends the caller's time with the grant: the next local caller gets it, or the store gets it back.
func (h *hold) letGo(ctx context.Context, now watchdog.Reading) error {
	l, g := h.g.locks, h.g
	if h.limit != nil {
		l.dog.Remove(h.limit)
	}
	l.observe(ctx, EventReleased, h.template, g.key(), now.Sub(h.started), nil)
	g.hold.Store(nil)
	err := l.giveBack(g, now)
	if err != nil {
		l.observe(ctx, EventReleaseFailed, h.template, g.key(), 0, err)
	}
	return err
}

// LeaseFrom returns the innermost lease that ctx carries and that is still held. ok is false if there is none.
func LeaseFrom(ctx context.Context) (lease *Lease, ok bool) {
	for c := carried(ctx); c != nil; c = c.outer {
		if c.good() {
			return c.lease, true
		}
	}
	return nil, false
}

// HeldKeys returns the keys, without namespaces, of every lease that ctx carries and that is still held, innermost lease
// first. It does not ask the store.
func HeldKeys(ctx context.Context) []string {
	var keys []string
	for c := carried(ctx); c != nil; c = c.outer {
		if c.good() {
			keys = append(keys, c.lease.Keys()...)
		}
	}
	return keys
}
