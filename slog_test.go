package latchkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// plainLog writes what does not change from run to run.
func plainLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}}))
}

func ExampleLogTo() {
	logger := plainLog(os.Stdout, slog.LevelDebug)
	locks := latchkey.New(memstore.New(), latchkey.Observe(latchkey.LogTo(logger)))
	pay := latchkey.Action(locks.WithLock("order:#{param}"), func(context.Context, int) error { return nil })

	_ = pay(context.Background(), 42)
	// Output:
	// level=DEBUG msg="latchkey: lock acquired" key=order:42 template=order:#{param}
	// level=DEBUG msg="latchkey: lock released" key=order:42 template=order:#{param}
}

func TestLogSaysWhatNeedsAttention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		store := newFaultStore()
		locks := latchkey.New(store, latchkey.Observe(latchkey.LogTo(plainLog(&out, slog.LevelInfo))))
		lease := acquire(t.Context(), t, locks, "k", latchkey.RenewedLease(3*time.Second))
		if _, err := locks.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
			t.Fatal(err)
		}
		if out.Len() > 0 {
			t.Errorf("everyday events are written at Info:\n%s", out.String())
		}
		store.breakBefore(func(*latchkey.Op) error { return errInjected })
		<-lease.Context().Done()
		if _, err := locks.Acquire(t.Context(), "k2"); !errors.Is(err, latchkey.ErrStore) {
			t.Fatal(err)
		}
		_ = lease.Release(t.Context())
		store.breakBefore(nil)
		time.Sleep(time.Minute) // what is undone in the background
		for _, want := range []string{
			`level=WARN msg="latchkey: lock renew-failed" key=k error=injected`,
			`level=WARN msg="latchkey: lock lost" key=k error="latchkey: lease of`,
			`level=WARN msg="latchkey: lock refused" key=k2 error="latchkey: store failed`,
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no line %s in\n%s", want, out.String())
			}
		}
		locks.Close()
	})
}

func TestLogWithoutALoggerGoesToTheDefault(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	observer := latchkey.LogTo(nil)
	slog.SetDefault(plainLog(&out, slog.LevelDebug))
	observer.Observe(t.Context(), latchkey.Event{Kind: latchkey.EventReentered, Key: "k"})
	if want := fmt.Sprintln(`level=DEBUG msg="latchkey: lock reentered" key=k`); out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}
