package latchkey

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// hook is a function that was registered for the end of a transaction. It gets the outcome, of which most kinds know
// beforehand.
type hook func(ctx context.Context, o Outcome) error

type hookKind uint8

const (
	hookBefore hookKind = iota
	hookCommit
	hookRollback
	hookCompletion
	hookKinds
)

// hookConfig is how hooks are run.
type hookConfig struct {
	timeout time.Duration
	failed  func(ctx context.Context, err error)
}

// BeforeCommit has f run in the transaction that ctx carries when its function has succeeded and before it is committed. If
// f returns an error or panics, the transaction is rolled back and that is the call's error.
//
// Hooks run in the order in which they were registered, on the goroutine of the transaction. A hook may register
// further ones of its kind and of those that come later. The error matches [ErrNoTx] if ctx carries no transaction and
// [ErrTxFinished] if that is over or too far for such a hook.
func BeforeCommit(ctx context.Context, f func(ctx context.Context) error) error {
	return register(ctx, hookBefore, f != nil, func(ctx context.Context, _ Outcome) error { return f(ctx) })
}

// AfterCommit has f run when the database has answered COMMIT, before any lock is released. Its context is not
// cancelled with the caller's but has a timeout, [HookTimeout]; the transaction is over. An error or a panic of f does not
// change the call's result: [OnHookError] and the observer hear it, and all other hooks run. Otherwise it is like
// [BeforeCommit].
func AfterCommit(ctx context.Context, f func(ctx context.Context) error) error {
	return register(ctx, hookCommit, f != nil, func(ctx context.Context, _ Outcome) error { return f(ctx) })
}

// AfterRollback is [AfterCommit] for a transaction, or the savepoint in which it is registered, that was rolled back.
func AfterRollback(ctx context.Context, f func(ctx context.Context) error) error {
	return register(ctx, hookRollback, f != nil, func(ctx context.Context, _ Outcome) error { return f(ctx) })
}

// AfterCompletion has f run after the other hooks, however the transaction ended, with its outcome: also if nobody
// knows it. Otherwise it is like [AfterCommit].
func AfterCompletion(ctx context.Context, f func(ctx context.Context, o Outcome)) error {
	return register(ctx, hookCompletion, f != nil, func(ctx context.Context, o Outcome) error {
		f(ctx, o)
		return nil
	})
}

func register(ctx context.Context, kind hookKind, given bool, f hook) error {
	if !given {
		return errors.New("latchkey: the hook is nil; pass a function")
	}
	lv := levelOf(ctx)
	if lv == nil {
		return ErrNoTx
	}
	t := lv.t
	t.mu.Lock()
	defer t.mu.Unlock()
	possible := false
	switch t.phase {
	case txOpen:
		possible = !lv.over
	case txEnding:
	case txAfter:
		// What is still to come: the hooks of this outcome, unless those are through, and the last ones.
		lv = &t.root
		possible = kind == hookCompletion || kind != hookBefore && lv.hooks[kind] != nil && t.runs(kind)
	case txOver:
	}
	if !possible {
		return txFinishedError{"the hook would never run"}
	}
	lv.hooks[kind] = append(lv.hooks[kind], f)
	return nil
}

// runs reports whether hooks of this kind are for the outcome.
func (t *txn) runs(kind hookKind) bool {
	switch kind {
	case hookCommit:
		return t.outcome == OutcomeCommitted
	case hookRollback:
		return t.outcome == OutcomeRolledBack
	default:
		return kind == hookCompletion
	}
}

// next takes the first hook of a kind. When there is none left the kind is through: the list is nil.
func (lv *txLevel) next(kind hookKind) hook {
	lv.t.mu.Lock()
	defer lv.t.mu.Unlock()
	list := lv.hooks[kind]
	if len(list) == 0 {
		lv.hooks[kind] = nil
		if kind == hookCompletion && lv.t.phase == txAfter {
			lv.t.phase = txOver // from here on nobody would run a hook
		}
		return nil
	}
	lv.hooks[kind] = list[1:]
	return list[0]
}

// beforeCommit runs those hooks until one fails.
func (t *txn) beforeCommit() error {
	for {
		f := t.root.next(hookBefore)
		if f == nil {
			return nil
		}
		if err := guarded(&t.ctx, f, OutcomeUnknown); err != nil {
			return err
		}
	}
}

// after runs the hooks of a level that has ended.
func (lv *txLevel) after(ctx context.Context, o Outcome) {
	defer lv.each(ctx, hookCompletion, o) // deferred: a hook may end its goroutine
	switch o {
	case OutcomeCommitted:
		lv.each(ctx, hookCommit, o)
	case OutcomeRolledBack:
		lv.each(ctx, hookRollback, o)
	default:
	}
}

// each runs all hooks of a kind, whatever some of them do.
func (lv *txLevel) each(ctx context.Context, kind hookKind, o Outcome) {
	f := lv.next(kind)
	if f == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			lv.each(ctx, kind, o) // the goroutine is ending: the others run on the way out
		}
	}()
	for ; f != nil; f = lv.next(kind) {
		lv.t.runHook(ctx, f, o)
	}
	returned = true
}

// runHook runs one hook with a bound. One that does not listen holds the caller up, but not the lock: at the bound its
// renewal ends.
func (t *txn) runHook(ctx context.Context, f hook, o Outcome) {
	ctx, cancel := context.WithTimeout(ctx, t.hooks.timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			for _, h := range t.allHolds() {
				h.fade()
			}
		}
	})
	defer stop()
	if err := guarded(ctx, f, o); err != nil {
		t.hookFailed(ctx, err)
	}
}

func (t *txn) hookFailed(ctx context.Context, err error) {
	for _, h := range t.allHolds() {
		h.g.locks.observe(ctx, EventHookFailed, h.template, h.g.key(), 0, err)
	}
	if t.hooks.failed == nil {
		return
	}
	defer func() { _ = recover() }() // nobody is left to hear a failure of who hears failures
	t.hooks.failed(ctx, err)
}

// guarded runs a hook and turns a panic into an error.
func guarded(ctx context.Context, f hook, o Outcome) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			err = hookPanicError{r, debug.Stack()}
		}
	}()
	err = f(ctx, o)
	returned = true
	return err
}

// hookPanicError is the panic of a hook.
type hookPanicError struct {
	value any
	stack []byte
}

func (e hookPanicError) Error() string {
	return fmt.Sprintf("latchkey: a hook panicked: %v\n%s", e.value, e.stack)
}

func (e hookPanicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
