package latchkey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// InTx runs fn in a transaction and commits it if fn returns nil. It is rolled back if fn returns an error, panics or ends
// its goroutine, if ctx ends before COMMIT is sent, or if a lock is lost that ctx carries or fn takes. fn's context
// ends with the transaction; its statements run through the handle.
//
// Locks that fn takes with its context are carried by the transaction: they are let go when the database has answered COMMIT
// or ROLLBACK and the hooks have run. If ROLLBACK is not answered within five seconds, or fn has left a statement behind
// that still runs then, the connection is closed instead: nothing can be committed any more. If ctx carries an open
// transaction of this manager, fn joins it; see [NewTransaction] and [Savepoint].
//
// fn's error passes through. Others match [ErrLeaseLost], [ErrFenced] or [ErrRollbackOnly]: rolled back; or
// [ErrOutcomeUnknown]; or wrap the driver's error: rolled back. A call that returns nil was committed.
func (m *TxManager) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error, opts ...TxOption) error {
	if m == nil {
		return errors.New("latchkey: InTx: the manager is nil; make one with NewTxManager(db)")
	}
	if fn == nil {
		return errors.New("latchkey: InTx: the function is nil")
	}
	cfg, err := m.config("InTx", opts)
	if err != nil {
		return err
	}
	return m.run(ctx, &cfg, nil, fn)
}

func (m *TxManager) config(what string, opts []TxOption) (txConfig, error) {
	cfg := m.defaults
	for i, o := range opts {
		if isNil(o) {
			return cfg, fmt.Errorf("latchkey: %s: option %d is nil; leave it out", what, i+1)
		}
		o.applyTx(&cfg)
	}
	return cfg, errors.Join(cfg.errs...)
}

// TxFrom returns the innermost transaction that ctx carries. ok is false if there is none, or it is over.
func TxFrom(ctx context.Context) (tx *Tx, ok bool) {
	for lv := levelOf(ctx); lv != nil; lv = lv.t.outer {
		if lv.t.m != nil && lv.t.open() {
			return &lv.t.tx, true
		}
	}
	return nil, false
}

// current returns the level of the manager's open transaction that ctx carries.
func (m *TxManager) current(ctx context.Context) *txLevel {
	for lv := levelOf(ctx); lv != nil; lv = lv.t.outer {
		if lv.t.m == m && !lv.over && lv.t.open() {
			return lv
		}
	}
	return nil
}

// run runs fn as the options say. fresh are the holds that were taken for this very call.
func (m *TxManager) run(ctx context.Context, cfg *txConfig, fresh []*hold, fn func(context.Context, *Tx) error) error {
	if lv := m.current(ctx); lv != nil && cfg.propagation != txNew {
		if err := lv.t.fits(cfg); err != nil {
			return err
		}
		if cfg.propagation == txSavepoint {
			return lv.savepoint(ctx, fn)
		}
		return lv.join(ctx, fn)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("latchkey: no transaction was begun: %w", context.Cause(ctx))
	}
	t := &txn{m: m, cfg: *cfg, hooks: m.hooks, outer: levelOf(ctx)}
	t.tx.t = t
	t.holds = heldBy(ctx)
	t.start(ctx)
	if err := t.begin(ctx, fresh); err != nil {
		t.ctx.cancel(err)
		return err
	}
	return t.run(fn)
}

// fits refuses options that can't be had from a transaction that is open already.
func (t *txn) fits(cfg *txConfig) error {
	if cfg.isolation != sql.LevelDefault && cfg.isolation != t.cfg.isolation {
		return fmt.Errorf("latchkey: Isolation(%v): the open transaction that would be joined has %v; begin one with NewTransaction()",
			cfg.isolation, t.cfg.isolation)
	}
	if t.cfg.readOnly && !cfg.readOnly {
		return errors.New("latchkey: the open transaction that would be joined is read-only; " +
			"say ReadOnly(), or begin one with NewTransaction()")
	}
	if t.cfg.unfenced && t.m.fences(cfg) {
		return errors.New("latchkey: the open transaction that would be joined raises no fences (WithoutFence); " +
			"say WithoutFence() here as well if nothing is written that a lock guards, or begin one with NewTransaction()")
	}
	return nil
}

// heldBy lists the holds of all leases that ctx carries.
func heldBy(ctx context.Context) []*hold {
	var holds []*hold
	now := watchdog.Now()
	for c := carried(ctx); c != nil; c = c.outer {
		if c.lease.released.Load() {
			continue
		}
		for _, h := range c.lease.holds {
			h.live(now)
			if !slices.Contains(holds, h) {
				holds = append(holds, h)
			}
		}
	}
	return holds
}

// run runs the function and ends the transaction, however the function ends.
func (t *txn) run(fn func(context.Context, *Tx) error) error {
	decided := false
	defer func() {
		if !decided { // a panic, or the end of the goroutine
			t.rollback()
		}
	}()
	err := fn(&t.ctx, &t.tx)
	limit, err := t.ready(err)
	decided = true
	if err != nil {
		return t.rolledBack(t.rollback(), err)
	}
	return t.commit(limit)
}

// ready decides whether to commit, and how long that may take.
func (t *txn) ready(err error) (limit time.Duration, _ error) {
	if err != nil {
		if cause := t.ended(); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return 0, err
	}
	if err := t.ended(); err != nil {
		return 0, err
	}
	if err := t.root.failure(); err != nil {
		return 0, err
	}
	if err := t.beforeCommit(); err != nil {
		return 0, err
	}
	if !t.gate.drain(txFinishedError{"its function has returned"}, endTimeout) {
		return 0, fmt.Errorf("latchkey: a statement of the transaction still ran %v after its function had returned; "+
			"wait for goroutines that use the handle", endTimeout)
	}
	// Once more: a hook or a goroutine may have seen to it meanwhile.
	if err := t.root.failure(); err != nil {
		return 0, err
	}
	if err := t.s.intact(); err != nil {
		return 0, err
	}
	if err := t.ended(); err != nil {
		return 0, err
	}
	return t.covered()
}

// commit sends COMMIT, from which there is no way back, and finds out what became of it.
func (t *txn) commit(limit time.Duration) error {
	t.enter(txEnding)
	v, err := t.s.commit(limit)
	if err == nil {
		t.settle(OutcomeCommitted)
		return nil
	}
	o := OutcomeRolledBack
	if v == verdictUnclear {
		o = t.lookUp()
	}
	t.settle(o)
	switch o {
	case OutcomeCommitted:
		return nil
	case OutcomeRolledBack:
		return fmt.Errorf("latchkey: COMMIT failed and the transaction was rolled back: %w", err)
	default:
		return t.unknown(err)
	}
}

// rollback returns when the transaction has been rolled back and its hooks have run. The outcome is unknown if the
// database had ended the transaction before, one way or the other.
func (t *txn) rollback() Outcome {
	t.enter(txEnding)
	over := txFinishedError{"its function has returned"}
	t.ctx.cancel(over) // ends statements of goroutines that it left behind
	if t.gate.drain(over, endTimeout) {
		_ = t.s.rollback() // without its connection it can't be committed either
	} else {
		t.s.discard() // a statement still runs
	}
	o := OutcomeRolledBack
	if t.s.untold.Load() && !t.cfg.readOnly {
		o = OutcomeUnknown
		if t.m.dialect == MySQL && t.lookUp() == OutcomeRolledBack {
			o = OutcomeRolledBack // the fence would have been committed with the rest
		}
	}
	t.settle(o)
	return o
}

// rolledBack makes the error of a transaction that was not committed.
func (t *txn) rolledBack(o Outcome, err error) error {
	switch {
	case o == OutcomeUnknown:
		return goneError{err, len(t.fences) > 0}
	case errors.Is(err, errTxGone) && !errors.Is(err, ErrRollbackOnly):
		return rollbackOnlyError{err}
	}
	return err
}

func (t *txn) enter(p txPhase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = p
}

// settle runs the hooks and lets the carried locks go.
func (t *txn) settle(o Outcome) {
	t.mu.Lock()
	t.phase, t.outcome = txAfter, o
	t.mu.Unlock()
	defer t.release() // deferred: a hook may end its goroutine
	t.root.after(context.WithoutCancel(&t.ctx), o)
}
