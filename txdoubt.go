package latchkey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// lookUp finds out how a COMMIT ended whose answer was lost: through the fence row, which the transaction has raised or
// not. The row's lock decides: while the server still works on the transaction nobody else gets it, and once somebody
// does the outcome stands.
func (t *txn) lookUp() Outcome {
	t.mu.Lock()
	rows := t.fences
	t.mu.Unlock()
	if len(rows) == 0 {
		return OutcomeUnknown
	}
	ctx, cancel := context.WithTimeout(backgroundCtx, t.m.lookup)
	defer cancel()
	for gap := firstFenceGap; ; gap = min(gap*2, 100*time.Millisecond) {
		o, err := t.lookOnce(ctx, rows)
		if err == nil {
			return o
		}
		if !sleep(ctx, gap) {
			return OutcomeUnknown
		}
	}
}

// lookOnce asks for one row after the other until one has the answer.
func (t *txn) lookOnce(ctx context.Context, rows []*fenceRow) (Outcome, error) {
	cfg := t.m.defaults
	cfg.connTimeout = t.m.lookup
	if t.m.dialect != SQLite {
		cfg.isolation = sql.LevelReadCommitted // what others have committed must be seen
	}
	s, err := t.m.begin(ctx, &cfg, false)
	if err != nil {
		return OutcomeUnknown, err
	}
	defer s.rollback() //nolint:errcheck // it has only read
	for _, f := range rows {
		var row fenceFound
		if err := row.read(ctx, t.m, s.run, f.resource); err != nil {
			return OutcomeUnknown, err
		}
		if o := f.outcome(row); o != OutcomeUnknown {
			return o, nil
		}
	}
	return OutcomeUnknown, nil
}

// outcome reads the answer from a row that nobody else is writing.
func (f *fenceRow) outcome(row fenceFound) Outcome {
	switch {
	case row.nonce == f.nonce:
		return OutcomeCommitted
	case row.token < f.token:
		return OutcomeRolledBack
	case row.token == f.token && row.holder == f.holder && f.h.fences.Load() == f.seq:
		// Raised by an earlier transaction under the same lease, and by none after ours.
		return OutcomeRolledBack
	}
	return OutcomeUnknown // somebody has overwritten what was there
}

// unknownError is a COMMIT whose outcome nobody knows, and why not. It matches [ErrOutcomeUnknown].
type unknownError struct {
	err error
	why string
}

func (t *txn) unknown(err error) error {
	why := "the answer was lost; with fencing (Fenced()) and a lock the outcome is looked up"
	if len(t.fences) > 0 {
		why = "the answer was lost, and the fence row could not tell"
	}
	return unknownError{err, why}
}

func (e unknownError) Error() string {
	return fmt.Sprintf("%v: COMMIT was sent, and %s; look at what it wrote before calling again: %v",
		ErrOutcomeUnknown, e.why, e.err)
}
func (e unknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns the driver's error, unless it would make the answer look like "cancelled": nobody knows that it was.
func (e unknownError) Unwrap() error {
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		return nil
	}
	return e.err
}

// goneError is a transaction that the database has ended before COMMIT, nobody knows how. It matches [ErrOutcomeUnknown].
type goneError struct {
	err    error
	fenced bool
}

func (e goneError) Error() string {
	text := fmt.Sprintf("%v: %v; look at what it wrote before calling again", ErrOutcomeUnknown, e.err)
	if !e.fenced {
		text += "; with fencing (Fenced()) and a lock a rollback is told from the rest"
	}
	return text
}
func (e goneError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns the function's error, unless it is one of ours that says "rolled back".
func (e goneError) Unwrap() error {
	if errors.Is(e.err, errTxGone) {
		return nil
	}
	return e.err
}
