package latchkey

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

var backgroundCtx = context.Background()

// errReleased is the cause of a context that outlived the function it was given to.
var errReleased = errors.New("latchkey: the lock was released when its function returned; " +
	"work that goes on longer needs a lease of its own (Locks.Acquire)")

// leaseKey finds the innermost leaseCtx of a context.
type leaseKey struct{}

// leaseCtx is the context that a locked function gets. It is done when the parent is, when the lease is lost and when
// the lease is released.
//
// The standard library's cancelCtx does the work, but is made only when somebody wants to be woken: most functions
// just pass the context on or ask Err. Err and Cause look at the clock themselves, so that the first question after
// a pause gets the true answer even if no timer has fired yet.
type leaseCtx struct {
	parent context.Context
	lease  *Lease
	outer  *leaseCtx // the next lease up
	inner  atomic.Pointer[innerCtx]
}

type innerCtx struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Deadline is the parent's: a lease that is renewed has no end that is known beforehand.
func (c *leaseCtx) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done implements context.Context.
func (c *leaseCtx) Done() <-chan struct{} {
	return c.wakeable().Done()
}

// Err implements context.Context. It compares the lease's deadline with the clock.
func (c *leaseCtx) Err() error {
	if inner := c.inner.Load(); inner != nil {
		if err := inner.ctx.Err(); err != nil {
			return err
		}
	} else if err := c.parent.Err(); err != nil {
		return err
	}
	if c.good() {
		return nil
	}
	return c.wakeable().Err()
}

// Value implements context.Context.
func (c *leaseCtx) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		return c
	case *int:
		// context.Cause asks the nearest cancelCtx for its cause, by a key of this type. It must meet ours if
		// ours has something to say.
		if inner := c.inner.Load(); inner != nil {
			c.good()
			return inner.ctx.Value(key)
		}
		if c.parent.Err() == nil && !c.good() {
			return c.wakeable().Value(key)
		}
	}
	return c.parent.Value(key)
}

// String names the context in the way of the standard library's contexts.
func (c *leaseCtx) String() string { return "latchkey.Lease(" + c.lease.Key() + ")" }

// good reports whether every hold of the lease is; one that has just run out is declared lost.
func (c *leaseCtx) good() bool {
	if c.lease.released.Load() {
		return false
	}
	now := watchdog.Now()
	for _, h := range c.lease.holds {
		if !h.live(now) {
			return false
		}
	}
	return true
}

// wakeable returns the context that wakes those who wait for its end.
func (c *leaseCtx) wakeable() context.Context {
	if inner := c.inner.Load(); inner != nil {
		return inner.ctx
	}
	// Made before any mutex is taken: the parent may be another lease's context, of the same hold even.
	ctx, cancel := context.WithCancelCause(c.parent)
	inner := &innerCtx{ctx, cancel}
	if !c.inner.CompareAndSwap(nil, inner) {
		cancel(nil)
		return c.inner.Load().ctx
	}
	for _, h := range c.lease.holds {
		h.mu.Lock()
		phase, cause := h.phase, h.cause
		if phase == phaseHeld {
			h.ctxs = append(h.ctxs, c)
		}
		h.mu.Unlock()
		if phase == phaseLost {
			cancel(cause)
		}
	}
	if c.lease.released.Load() {
		cancel(c.lease.cause())
	}
	return ctx
}

// cancel ends the context if it was ever made wakeable; otherwise the lease's state speaks for itself.
func (c *leaseCtx) cancel(cause error) {
	if inner := c.inner.Load(); inner != nil {
		inner.cancel(cause)
	}
}

// carried returns the innermost lease context that ctx descends from, nil if there is none.
func carried(ctx context.Context) *leaseCtx {
	c, _ := ctx.Value(leaseKey{}).(*leaseCtx)
	return c
}
