package latchkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Outcome is how a transaction ended.
type Outcome uint8

// The outcomes of a transaction.
const (
	// OutcomeUnknown: the database did not answer COMMIT and the outcome could not be looked up.
	OutcomeUnknown Outcome = iota
	// OutcomeCommitted: the database answered COMMIT.
	OutcomeCommitted
	// OutcomeRolledBack: the transaction has left nothing behind.
	OutcomeRolledBack
)

// String returns "unknown", "committed" or "rolled back".
func (o Outcome) String() string {
	switch o {
	case OutcomeCommitted:
		return "committed"
	case OutcomeRolledBack:
		return "rolled back"
	default:
		return "unknown"
	}
}

// txPhase is how far a transaction has come.
type txPhase uint8

const (
	txOpen   txPhase = iota // the function and the BeforeCommit hooks run
	txEnding                // COMMIT or ROLLBACK is under way
	txAfter                 // the outcome is known and the other hooks run
	txOver
)

// txn is an open transaction, or scope: whatever it carries and whoever waits for its end.
type txn struct {
	m     *TxManager // nil for a scope
	cfg   txConfig
	hooks hookConfig
	outer *txLevel // where a new transaction was begun inside another one
	ctx   txCtx
	root  txLevel
	s     *session
	tx    Tx
	gate  gate
	ran   atomic.Bool // a statement of the function ran

	mu      sync.Mutex
	phase   txPhase
	outcome Outcome
	holds   []*hold  // those of the context in which it was begun
	carried []*Lease // taken inside, and kept to its end
	unwatch []func() bool
	fences  []*fenceRow
	stale   staleness
	points  int // savepoints so far
}

// txLevel is a transaction or a savepoint in it: hooks belong to a level.
type txLevel struct {
	t      *txn
	over   bool
	failed error // why it can only be rolled back
	hooks  [hookKinds][]hook
}

// txKey finds the innermost txLevel of a context.
type txKey struct{}

// txUsed says that some transaction was begun: until then no lock has to look for one.
var txUsed atomic.Bool

// levelOf returns the innermost open level that ctx carries, nil if there is none.
func levelOf(ctx context.Context) *txLevel {
	if !txUsed.Load() {
		return nil
	}
	lv, _ := ctx.Value(txKey{}).(*txLevel)
	return lv
}

func (t *txn) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == txOpen
}

// start makes the context of a transaction that is about to run its function.
func (t *txn) start(ctx context.Context) {
	txUsed.Store(true)
	t.root.t = t
	t.ctx.parent = ctx //nolint:fatcontext // made once, nothing grows
	t.ctx.level = &t.root
	t.ctx.Context, t.ctx.cancel = context.WithCancelCause(ctx)
}

// fail marks the level as one that can only be rolled back.
func (lv *txLevel) fail(cause error) {
	lv.t.mu.Lock()
	defer lv.t.mu.Unlock()
	if lv.failed == nil {
		lv.failed = cause
	}
}

func (lv *txLevel) failure() error {
	lv.t.mu.Lock()
	defer lv.t.mu.Unlock()
	if lv.failed == nil {
		return nil
	}
	return rollbackOnlyError{lv.failed}
}

// allHolds lists every hold that the transaction relies on.
func (t *txn) allHolds() []*hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append([]*hold(nil), t.holds...)
	for _, le := range t.carried {
		all = append(all, le.holds...)
	}
	return all
}

// coverTries bounds how often leases are renewed for COMMIT because others had to be renewed meanwhile.
const coverTries = 3

// covered makes sure that every lease lasts for as long as COMMIT may take, and returns how long that is.
func (t *txn) covered() (time.Duration, error) {
	limit, bound := t.cfg.commitTimeout, t.cfg.commitTimeout
	holds := t.allHolds()
	for try := 1; ; try++ {
		for _, h := range holds {
			need := h.commitTime(&t.cfg)
			if err := h.cover(need); err != nil {
				return 0, err
			}
			bound = min(bound, need)
		}
		// To renew one of them may have taken what another one had left.
		short := t.short(holds)
		if short == nil {
			break
		}
		if try == coverTries {
			return 0, lostError{short.g.key(), "the store took too long to renew all locks for COMMIT"}
		}
	}
	if len(t.fences) > 0 {
		// The fence keeps others out for as long as COMMIT takes, whatever becomes of the lease.
		bound = limit
	}
	return bound, nil
}

// short returns a hold that does not last for COMMIT any more, nil if all do.
func (t *txn) short(holds []*hold) *hold {
	if len(holds) < 2 {
		return nil
	}
	now := watchdog.Now()
	for _, h := range holds {
		if h.g.item.Deadline.Left(now) < h.commitTime(&t.cfg) {
			return h
		}
	}
	return nil
}

// ended returns why the function's context has ended, nil if it has not.
func (t *txn) ended() error {
	if t.ctx.Err() == nil {
		return nil
	}
	return context.Cause(&t.ctx)
}

// carry keeps the lock of a lease that was taken inside the transaction until the transaction's end, and ends the
// transaction's context if it is lost.
func (t *txn) carry(le *Lease) error {
	now := watchdog.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != txOpen {
		return txFinishedError{"a lock can't be taken in it"}
	}
	keep := &Lease{}
	for _, h := range le.holds {
		if t.carriesLocked(h) {
			continue
		}
		if !h.enter(now) {
			err := h.gone()
			if len(keep.holds) > 0 {
				keep.init(backgroundCtx, le.locks, nil, &request{template: le.template})
				_, _ = keep.release(backgroundCtx) // the caller releases what it has as well
			}
			return err
		}
		keep.holds = append(keep.holds, h)
	}
	if len(keep.holds) == 0 {
		return nil
	}
	keep.init(backgroundCtx, le.locks, nil, &request{template: le.template})
	t.carried = append(t.carried, keep)
	ctx := keep.Context()
	t.unwatch = append(t.unwatch, context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
			t.ctx.cancel(cause)
		}
	}))
	return nil
}

func (t *txn) carriesLocked(h *hold) bool {
	return slices.ContainsFunc(t.carried, func(le *Lease) bool { return slices.Contains(le.holds, h) })
}

// find looks for a hold on the key among the leases that the transaction and those around it carry, and enters it.
func (lv *txLevel) find(store Store, full string, now watchdog.Reading) *hold {
	for ; lv != nil; lv = lv.t.outer {
		t := lv.t
		t.mu.Lock()
		carried := t.carried
		if t.phase == txOver {
			carried = nil
		}
		t.mu.Unlock()
		for _, le := range carried {
			for _, h := range le.holds {
				if h.g.full == full && h.g.locks.store == store && h.enter(now) {
					return h
				}
			}
		}
	}
	return nil
}

// release lets the carried locks go, last in first out; if nobody knows whether the transaction was committed they are
// left to expire, and so are those that it was begun under.
func (t *txn) release() {
	t.mu.Lock()
	carried, unwatch, unknown := t.carried, t.unwatch, t.outcome == OutcomeUnknown
	t.phase = txOver
	t.unwatch = nil
	t.mu.Unlock()
	t.ctx.cancel(txFinishedError{"its function has returned"})
	for _, stop := range unwatch {
		stop()
	}
	if unknown {
		for _, h := range t.allHolds() {
			h.letExpire()
		}
	}
	for _, le := range slices.Backward(carried) {
		_, _ = le.release(backgroundCtx) // the observer hears it
	}
}

// txCtx is the context that the function of a transaction gets. Like a lease's it compares the clock when it is asked.
type txCtx struct {
	context.Context // ends with the caller's, the transaction and the leases that it carries

	parent context.Context
	cancel context.CancelCauseFunc
	level  *txLevel
}

// Err implements context.Context.
func (c *txCtx) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.parent.Err() != nil {
		c.cancel(context.Cause(c.parent))
		return c.Context.Err()
	}
	t := c.level.t
	t.mu.Lock()
	carried := t.carried
	t.mu.Unlock()
	for _, le := range carried {
		if le.ctx.Err() != nil && !le.released.Load() {
			c.cancel(context.Cause(&le.ctx))
			break
		}
	}
	return c.Context.Err()
}

// Value implements context.Context.
func (c *txCtx) Value(key any) any {
	switch key.(type) {
	case txKey:
		return c.level
	case *int: // context.Cause, see leaseCtx
		_ = c.Err()
	}
	return c.Context.Value(key)
}

// rollbackOnlyError is what failed in a transaction whose own function succeeded.
type rollbackOnlyError struct{ cause error }

func (e rollbackOnlyError) Error() string {
	return fmt.Sprintf("%v: %v; let the error reach the outer function, or give the part a savepoint (Savepoint())",
		ErrRollbackOnly, e.cause)
}
func (e rollbackOnlyError) Is(target error) bool { return target == ErrRollbackOnly }
func (e rollbackOnlyError) Unwrap() error        { return e.cause }

type txFinishedError struct{ what string }

func (e txFinishedError) Error() string        { return ErrTxFinished.Error() + ": " + e.what }
func (e txFinishedError) Is(target error) bool { return target == ErrTxFinished }
