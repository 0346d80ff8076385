package latchkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Transactional runs the function in a transaction of the manager, under the decorator's lock: the lock is taken, then the
// transaction begun; the lock is let go when the transaction is over and the hooks have run, see [TxManager.InTx]. The
// function finds its transaction with [TxFrom].
//
// An error of the function rolls back, as does a lock that is lost; see [TxManager.InTx] for everything else. A call
// that returns nil was committed. If the caller's context carries an open transaction of the manager the function joins it
// and that one carries the lock to its end.
func Transactional(m *TxManager, opts ...TxOption) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) {
		if m == nil {
			c.errs = append(c.errs, errors.New("latchkey: Transactional: the manager is nil; make one with NewTxManager(db)"))
			return
		}
		cfg, err := m.config("Transactional", opts)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		c.tx = &txPlan{m, cfg}
	})
}

// txPlan is what Transactional asks for.
type txPlan struct {
	m   *TxManager
	cfg txConfig
}

// check looks for options that do not go together, and has the lock's token minted where there is a fence.
func (p *txPlan) check(hold *holdConfig, caps Capabilities) []error {
	var errs []error
	if p == nil {
		return nil
	}
	if p.cfg.commitSet && p.cfg.commitTimeout > hold.lease {
		errs = append(errs, fmt.Errorf("latchkey: Transactional: CommitTimeout(%v) is longer than the lease (%v), "+
			"so that no transaction could be committed in it; make the lease longer with RenewedLease or LeaseFor",
			p.cfg.commitTimeout, hold.lease))
	}
	if p.m.fences(&p.cfg) && p.m.fence == fenceStore {
		hold.mint = true
		if !caps.Tokens {
			errs = append(errs, errors.New("latchkey: Transactional: this store mints no fencing tokens; "+
				"use NewTxManager(db, Fenced(DatabaseTokens()))"))
		}
	}
	return errs
}

// joins reports whether the function will be a part of a transaction that is open already.
func (p *txPlan) joins(ctx context.Context) bool {
	return p.cfg.propagation != txNew && p.m.current(ctx) != nil
}

// run runs fn in the transaction and lets the lease go. lease is nil if there is no lock.
func (p *txPlan) run(ctx context.Context, lease *Lease, fn func(context.Context) error) (err error) {
	call := func(ctx context.Context, _ *Tx) error { return fn(ctx) }
	if lease == nil {
		return p.m.run(ctx, &p.cfg, nil, call)
	}
	joins := p.joins(ctx)
	defer func() {
		lost, _ := lease.release(ctx)
		// A call that was committed has no error, or somebody would repeat it.
		if lost != nil && (joins || err != nil) && !errors.Is(err, ErrLeaseLost) {
			err = errors.Join(err, lost)
		}
	}()
	return p.m.run(lease.Context(), &p.cfg, p.fresh(ctx, lease), call)
}

// fresh lists the holds of the lease that the caller did not have already: only under these has no code run yet.
func (p *txPlan) fresh(ctx context.Context, lease *Lease) []*hold {
	if !p.m.fences(&p.cfg) {
		return nil
	}
	had := heldBy(ctx)
	for lv := levelOf(ctx); lv != nil; lv = lv.t.outer {
		had = append(had, lv.t.allHolds()...)
	}
	fresh := make([]*hold, 0, len(lease.holds))
	for _, h := range lease.holds {
		if !slices.Contains(had, h) {
			fresh = append(fresh, h)
		}
	}
	return fresh
}
