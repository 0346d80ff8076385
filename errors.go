package latchkey

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels for errors.Is. They are never returned bare where a richer error exists.
var (
	// ErrBusy is returned when somebody else holds the lock and the wait is over. See [BusyError].
	ErrBusy = errors.New("latchkey: lock is busy")

	// ErrKey is returned when a key template can't be compiled, or renders to no usable key. See [KeyError].
	ErrKey = errors.New("latchkey: no usable key")

	// ErrStore is returned when the store could not be asked or did not answer. It wraps the backend's error.
	ErrStore = errors.New("latchkey: store failed")

	// ErrLeaseLost is returned, and is the cause of a cancelled context, when a lease ran out, was taken away
	// or can no longer be shown to be held.
	ErrLeaseLost = errors.New("latchkey: lease lost")

	// ErrFenced is returned when a newer holder of the lock has been in the database before this one's transaction:
	// the transaction was rolled back.
	ErrFenced = errors.New("latchkey: fenced off by a newer holder of the lock")

	// ErrOutcomeUnknown is returned when nobody can tell whether a transaction was committed: the connection was lost in
	// COMMIT and the outcome could not be looked up. The lock is left to expire. Do not call again blindly.
	ErrOutcomeUnknown = errors.New("latchkey: outcome of the transaction unknown")

	// ErrRollbackOnly is returned by a transaction that could only be rolled back, since something that had joined it
	// failed, although its own function succeeded.
	ErrRollbackOnly = errors.New("latchkey: transaction was rolled back because a part of it failed")

	// ErrTxFinished is returned when a transaction is used, or a hook is registered, after its end.
	ErrTxFinished = errors.New("latchkey: transaction is over")

	// ErrNoTx is returned when a hook is registered with a context that carries no open transaction.
	ErrNoTx = errors.New("latchkey: no transaction in this context")
)

// BusyError says who was in the way of a lock: nobody by name, only for how long. It matches [ErrBusy].
type BusyError struct {
	// Key is the key that was busy, without the namespace.
	Key string
	// Waited is how long the caller queued before it gave up; zero for a caller that does not wait.
	Waited time.Duration
	// RetryAfter is when the present hold ends if nobody renews it; zero when unknown.
	RetryAfter time.Duration
	// Cause is why the wait ended early (the context's cause); nil when the wait ran its time.
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string {
	msg := fmt.Sprintf("latchkey: lock %q is busy", e.Key)
	if e.Waited > 0 {
		msg += fmt.Sprintf(" (waited %v)", e.Waited.Round(time.Millisecond))
	}
	if e.Cause != nil {
		msg += ": " + e.Cause.Error()
	}
	return msg
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the cause of a wait that ended early.
func (e *BusyError) Unwrap() error { return e.Cause }
