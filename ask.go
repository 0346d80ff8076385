package latchkey

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errNoAnswer is a store's silence for longer than the op timeout.
var errNoAnswer = errors.New("no answer within the op timeout")

// asked is one operation on its way to the store and back. It is used once, as others may look at it at any time.
type asked struct {
	op    Op
	ops   [1]*Op
	ctx   context.Context
	left  time.Time
	state atomic.Int32
	done  chan struct{}
}

const (
	underWay int32 = iota
	answered
	abandoned
)

// ask has the store carry out one operation and returns it with its answer. It returns early, with an error, when ctx
// ends or the op timeout passes, give or take a few milliseconds; the operation may still take effect then.
func (l *Locks) ask(ctx context.Context, op Op) Op {
	op.Ctx = ctx
	if l.caps.Instant {
		return l.askNow(ctx, op)
	}
	a := &asked{op: op, ctx: ctx, left: time.Now(), done: l.bells.Get().(chan struct{})} //nolint:forcetypeassert // our own pool
	l.lines.to(op.Key).Add(a)
	<-a.done // lookAt sees to it that this takes no longer than it may
	l.bells.Put(a.done)
	if a.state.Load() == answered {
		return a.op
	}
	// The store may still write into a.op.
	if op.Err = errNoAnswer; ctx.Err() != nil {
		op.Err = context.Cause(ctx)
	}
	return op
}

// askNow is ask for a store that answers from memory.
func (l *Locks) askNow(ctx context.Context, op Op) Op {
	ops := l.asks.Get().(*[1]*Op) //nolint:forcetypeassert // our own pool
	*ops[0] = op
	l.store.Do(ctx, ops[:])
	op = *ops[0]
	*ops[0] = Op{}
	l.asks.Put(ops)
	return op
}

// end wakes the caller; only the first end counts.
func (a *asked) end(state int32) {
	if a.state.CompareAndSwap(underWay, state) {
		a.done <- struct{}{}
	}
}

// lookAt lets a caller go that has waited long enough.
func (l *Locks) lookAt(a *asked) {
	if a.ctx.Err() != nil || time.Since(a.left) > l.opTimeout {
		a.end(abandoned)
	}
}

// trip carries a batch to the store, without those whose callers have given up while it waited to leave.
func (l *Locks) trip(batch []*asked) {
	ops := batch[0].ops[:0]
	if len(batch) > 1 {
		ops = make([]*Op, 0, len(batch))
	}
	for _, a := range batch {
		if a.state.Load() == underWay {
			ops = append(ops, &a.op)
		}
	}
	if len(ops) == 0 {
		return
	}
	l.store.Do(until(time.Now().Add(l.opTimeout)), ops)
	for _, a := range batch {
		a.end(answered)
	}
}

// askAll has the store carry out a batch on behalf of nobody who waits for more than timeout. Operations without an
// answer by then have errNoAnswer.
func (l *Locks) askAll(questions []Op, timeout time.Duration) []Op {
	answers := make([]Op, len(questions))
	copy(answers, questions)
	if l.caps.Instant {
		for i := range answers {
			l.store.Do(backgroundCtx, []*Op{&answers[i]})
		}
		return answers
	}
	parts := l.lines.split(answers)
	deadline := until(time.Now().Add(timeout))
	for _, p := range parts {
		go p.do(l, deadline)
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	for _, p := range parts {
		answered := true
		select {
		case <-p.done:
		case <-late.C:
			late.Reset(0) // for the others too
			select {
			case <-p.done:
			default:
				answered = false
			}
		}
		for i, at := range p.at {
			if answered {
				answers[at] = p.ops[i]
			} else {
				answers[at].Err = errNoAnswer
			}
		}
	}
	return answers
}

// until is a context with a deadline and no timer: it tells a client when to give up, and whoever waits for the answer
// has a timer of its own.
type until time.Time

func (u until) Deadline() (time.Time, bool) { return time.Time(u), true }
func (u until) Done() <-chan struct{}       { return nil }
func (u until) Value(any) any               { return nil }

func (u until) Err() error {
	if time.Now().Before(time.Time(u)) {
		return nil
	}
	return context.DeadlineExceeded
}

// storeError is the backend's error and what was asked of it. It matches [ErrStore].
type storeError struct {
	kind OpKind
	key  string
	err  error
}

func (e storeError) Error() string {
	return fmt.Sprintf("latchkey: store failed to %v %s: %v", e.kind, quote(e.key), e.err)
}
func (e storeError) Is(target error) bool { return target == ErrStore }
func (e storeError) Unwrap() error        { return e.err }
