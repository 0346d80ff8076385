package latchkey

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Detach returns another lease on what the lease in ctx holds, for work that goes on when the locked function has
// returned: in a goroutine, or on a connection that was hijacked. The lock is let go when both are over, the function and
// the detached lease, so the work starts under the lock and stays under it, whichever ends first.
//
//	lease, err := latchkey.Detach(ctx, time.Minute)
//	if err != nil {
//		return err
//	}
//	go func() {
//		defer lease.Release(context.Background())
//		work(lease.Context())
//	}()
//
// Call it before the function returns. The lease's context has the values of ctx, and ends with the lease, not with ctx.
// The lease is lost when it has lasted for atMost, so that one that is forgotten does not block its key for as long as
// the process lives; what [LeaseFor] or [MaxHold] allow the function counts too. The transaction that the function may be
// in is none of the work's: [TxFrom] does not find it, and [TxManager.InTx] begins another one. If both are fenced that
// one waits until the function's is over, for [FenceWait] at most.
//
// The error matches [ErrLeaseLost]: ctx carries no lease, or none that is still held.
func Detach(ctx context.Context, atMost time.Duration) (*Lease, error) {
	if atMost <= 0 {
		return nil, fmt.Errorf("latchkey: Detach(%v): the bound must be positive; say how long the work may take", atMost)
	}
	c := carried(ctx)
	for c != nil && !c.good() {
		c = c.outer
	}
	if c == nil {
		return nil, fmt.Errorf("%w: Detach: the context carries no lease that is held; call it in the locked function", ErrLeaseLost)
	}
	le := &Lease{holds: make([]*hold, 0, len(c.lease.holds))}
	work := context.WithoutCancel(ctx)
	if levelOf(ctx) != nil {
		work = inLevel(work, nil)
	}
	le.init(work, c.lease.locks, carried(ctx), &request{template: c.lease.template})
	now := watchdog.Now()
	for _, h := range c.lease.holds {
		if !h.enter(now) {
			_, _ = le.release(ctx)
			return nil, lostError{h.g.key(), "it ended while it was being detached"}
		}
		le.holds = append(le.holds, h)
	}
	le.detached = &detachment{}
	le.detached.timer.Store(time.AfterFunc(atMost, func() {
		lost := error(lostError{le.Key(), fmt.Sprintf("held for longer than the %v that Detach allows", atMost)})
		le.detached.ended.Store(&lost)
		_, _ = le.release(backgroundCtx)
	}))
	return le, nil
}

// detachment is the bound of a lease from Detach.
type detachment struct {
	timer atomic.Pointer[time.Timer]
	ended atomic.Pointer[error] // that the bound was reached
}

func (d *detachment) overdue() error {
	if d == nil || d.ended.Load() == nil {
		return nil
	}
	return *d.ended.Load()
}

func (d *detachment) stop() {
	if d == nil {
		return
	}
	if timer := d.timer.Load(); timer != nil {
		timer.Stop()
	}
}
