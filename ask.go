package latchkey

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNoAnswer is a store's silence for longer than the op timeout.
var errNoAnswer = errors.New("no answer within the op timeout")

// asked is one operation on its way to the store and back.
type asked struct {
	op    Op
	ops   [1]*Op
	done  chan struct{}
	timer *time.Timer
}

func newAsked() any {
	a := &asked{done: make(chan struct{}, 1)}
	a.ops[0] = &a.op
	return a
}

// ask has the store carry out one operation and returns it with its answer. It returns early, with an error, when ctx
// ends or the op timeout passes; the operation may still take effect then.
func (l *Locks) ask(ctx context.Context, op Op) Op {
	a := l.asks.Get().(*asked)
	a.op = op
	a.op.Ctx = ctx
	if l.caps.Instant {
		l.store.Do(ctx, a.ops[:])
		op = a.op
		l.putAsked(a)
		return op
	}

	l.batch.Add(a)
	if a.timer == nil {
		a.timer = time.NewTimer(l.opTimeout)
	} else {
		a.timer.Reset(l.opTimeout)
	}
	select {
	case <-a.done:
		a.timer.Stop()
		op = a.op
		l.putAsked(a)
		return op
	case <-ctx.Done():
		a.timer.Stop()
		op.Err = context.Cause(ctx)
	case <-a.timer.C:
		op.Err = errNoAnswer
	}
	// The store still writes into a; it is left to the garbage collector.
	return op
}

func (l *Locks) putAsked(a *asked) {
	a.op = Op{}
	l.asks.Put(a)
}

// trip carries a batch to the store.
func (l *Locks) trip(batch []*asked) {
	ctx := until(time.Now().Add(l.opTimeout))
	ops := batch[0].ops[:]
	if len(batch) > 1 {
		ops = make([]*Op, len(batch))
		for i, a := range batch {
			ops[i] = &a.op
		}
	}
	l.store.Do(ctx, ops)
	for _, a := range batch {
		a.done <- struct{}{}
	}
}

// askAll has the store carry out a batch on behalf of nobody who waits for more than timeout. Operations without an
// answer by then have errNoAnswer.
func (l *Locks) askAll(questions []Op, timeout time.Duration) []Op {
	answers := make([]Op, len(questions))
	copy(answers, questions)
	ops := make([]*Op, len(answers))
	for i := range answers {
		ops[i] = &answers[i]
	}
	if l.caps.Instant {
		for i := range ops {
			l.store.Do(backgroundCtx, ops[i:i+1])
		}
		return answers
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.store.Do(until(time.Now().Add(timeout)), ops)
	}()
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-done:
		return answers
	case <-late.C:
		for i := range questions {
			questions[i].Err = errNoAnswer
		}
		return questions
	}
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
