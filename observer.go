package latchkey

import (
	"context"
	"time"
)

// Observer hears what happens to locks: logging, metrics and traces hang on it. Events come from many goroutines at
// once, some of them while a caller waits, so Observe must be safe for concurrent use, return quickly and not panic.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// EventKind says what happened.
type EventKind string

// The events that an [Observer] hears.
const (
	// EventAcquired: a lock was taken; Duration is how long that took.
	EventAcquired EventKind = "acquired"
	// EventWaiting: the lock is busy and the caller has begun to wait for it.
	EventWaiting EventKind = "waiting"
	// EventRefused: a lock was not taken; Err says why, Duration how long that took.
	EventRefused EventKind = "refused"
	// EventHandedOver: like EventAcquired, but from another caller in this process without asking the store.
	EventHandedOver EventKind = "handed-over"
	// EventReentered: the caller's context holds the lock already.
	EventReentered EventKind = "reentered"
	// EventRenewed: a lease was renewed; Duration is how long the store took.
	EventRenewed EventKind = "renewed"
	// EventRenewFailed: a renewal got no answer (Err) and will be tried again until the lease ends.
	EventRenewFailed EventKind = "renew-failed"
	// EventLost: a lease was lost; Err says how.
	EventLost EventKind = "lost"
	// EventReleased: a lock was let go; Duration is how long it was held.
	EventReleased EventKind = "released"
	// EventReleaseFailed: the store did not confirm a release (Err); it is repeated until the lease has ended.
	EventReleaseFailed EventKind = "release-failed"
	// EventHookFailed: a hook of a transaction under the lock failed (Err) after the transaction's end.
	EventHookFailed EventKind = "hook-failed"
)

// Event is one thing that happened to one lock.
type Event struct {
	Kind EventKind
	// Template is the key template of the decorator; empty for [Locks.Acquire].
	Template string
	// Key is the rendered key without the namespace.
	Key string
	// Duration is explained at each kind.
	Duration time.Duration
	// Err is set for events that are failures.
	Err error
}

func (l *Locks) observe(ctx context.Context, kind EventKind, template, key string, d time.Duration, err error) {
	if l.observer != nil {
		l.observer.Observe(ctx, Event{Kind: kind, Template: template, Key: key, Duration: d, Err: err})
	}
}
