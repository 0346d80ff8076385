package latchkey

import (
	"context"
	"errors"
	"log/slog"
)

// LogTo returns an observer that writes events to the logger, with the context that the event comes with: kind, key,
// template, duration and error as attributes. A nil logger is [slog.Default], asked for at each event.
//
// What needs somebody's attention is written as a warning: leases that were lost, renewals and releases that failed, and
// locks that were refused because the store failed. Everything else, a busy lock included, is written at level Debug.
func LogTo(logger *slog.Logger) Observer { return slogObserver{logger} }

type slogObserver struct{ logger *slog.Logger }

// Observe implements [Observer].
func (o slogObserver) Observe(ctx context.Context, e Event) {
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	level := e.level()
	if !logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 4)
	attrs = append(attrs, slog.String("key", e.Key))
	if e.Template != "" {
		attrs = append(attrs, slog.String("template", e.Template))
	}
	if e.Duration > 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	logger.LogAttrs(ctx, level, "latchkey: lock "+string(e.Kind), attrs...)
}

// level is how much attention an event needs.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventLost, EventRenewFailed, EventReleaseFailed:
		return slog.LevelWarn
	case EventRefused:
		if !errors.Is(e.Err, ErrBusy) {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}
