package latchkey

import (
	"context"
	"errors"
	"fmt"
)

var errPartEnded = errors.New("a part of it panicked or ended its goroutine")

// inLevel is ctx with the level as its innermost one.
func inLevel(ctx context.Context, lv *txLevel) context.Context {
	if levelOf(ctx) == lv {
		return ctx
	}
	return context.WithValue(ctx, txKey{}, lv)
}

// join runs fn as a part of the level. If it fails, the whole level can only be rolled back, even if whoever called fn
// goes on as if nothing had happened.
func (lv *txLevel) join(ctx context.Context, fn func(context.Context, *Tx) error) error {
	returned := false
	defer func() {
		if !returned {
			lv.fail(errPartEnded)
		}
	}()
	err := fn(inLevel(ctx, lv), &lv.t.tx)
	returned = true
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // its lock was lost, perhaps
	}
	if err != nil {
		lv.fail(err)
	}
	return err
}

// savepoint runs fn as a part that can be rolled back alone.
func (lv *txLevel) savepoint(ctx context.Context, fn func(context.Context, *Tx) error) error {
	t := lv.t
	t.mu.Lock()
	t.points++
	name := fmt.Sprintf("latchkey_%d", t.points)
	fences := len(t.fences)
	t.mu.Unlock()
	if err := t.exec(ctx, "SAVEPOINT "+name); err != nil {
		lv.fail(err)
		return fmt.Errorf("latchkey: the savepoint could not be set: %w", err)
	}
	inner := &txLevel{t: t}
	released := false
	defer func() {
		if !released {
			inner.undo(lv, name, fences)
		}
	}()
	err := fn(context.WithValue(ctx, txKey{}, inner), &t.tx)
	if err == nil {
		err = inner.failure()
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.exec(ctx, "RELEASE SAVEPOINT "+name); err != nil {
		return fmt.Errorf("latchkey: the savepoint could not be released: %w", err)
	}
	released = true
	t.mu.Lock()
	defer t.mu.Unlock()
	inner.over = true
	for kind := range inner.hooks {
		lv.hooks[kind] = append(lv.hooks[kind], inner.hooks[kind]...)
	}
	return nil
}

// undo rolls back to the savepoint. It has to work also when the caller's context has ended.
func (lv *txLevel) undo(outer *txLevel, name string, fences int) {
	t := lv.t
	ctx, cancel := context.WithTimeout(context.WithoutCancel(&t.ctx), endTimeout)
	defer cancel()
	t.mu.Lock()
	lv.over = true
	lost := t.fences[min(fences, len(t.fences)):]
	t.mu.Unlock()
	err := t.exec(ctx, "ROLLBACK TO SAVEPOINT "+name)
	// The locks are kept, so their fences must be.
	for _, f := range lost {
		if err == nil {
			err = t.raiseAgain(ctx, f)
		}
	}
	if err != nil {
		outer.fail(fmt.Errorf("roll back to the savepoint: %w", err))
	}
	lv.after(context.WithoutCancel(ctx), OutcomeRolledBack)
}

func (t *txn) raiseAgain(ctx context.Context, f *fenceRow) error {
	if err := t.gate.enter(); err != nil {
		return err
	}
	defer t.gate.leave()
	ok, err := t.m.raise(ctx, t.s.run, f)
	if err == nil && !ok {
		err = fencedError{key: f.h.g.key(), token: f.token}
	}
	return err
}

// exec runs a statement of ours, which reads nothing.
func (t *txn) exec(ctx context.Context, query string) error {
	if err := t.gate.enter(); err != nil {
		return err
	}
	defer t.gate.leave()
	if err := t.lost(nil); err != nil {
		return err
	}
	_, err := t.s.run.ExecContext(ctx, query)
	_ = t.lost(err)
	return err
}
