//go:build unix

package itest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

type thing struct{ n int }

// outcome is how a call ended that may never return.
type outcome struct {
	returned bool
	result   *thing
	err      error
	panicked any
}

// end makes a call on a goroutine of its own.
func end(t *testing.T, call func(context.Context) (*thing, error)) outcome {
	t.Helper()
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if !o.returned {
				o.panicked = recover()
			}
			ended <- o
		}()
		o.result, o.err = call(context.Background())
		o.returned = true
	}()
	return hear(t, "the call has ended", ended)
}

func TestKeyIsGoneHoweverTheFunctionEnds(t *testing.T) {
	t.Parallel()
	const key = "ended"
	failure, one := errors.New("its own"), &thing{1}
	for _, c := range []struct {
		name string
		body func(context.Context) (*thing, error)
		want outcome
	}{
		{"by returning", func(context.Context) (*thing, error) { return one, nil }, outcome{returned: true, result: one}},
		{"with a nil result", func(context.Context) (*thing, error) { return nil, nil }, outcome{returned: true}},
		{"with an error", func(context.Context) (*thing, error) { return one, failure },
			outcome{returned: true, result: one, err: failure}},
		{"busy, by its own account", func(context.Context) (*thing, error) { return nil, latchkey.ErrBusy },
			outcome{returned: true, err: latchkey.ErrBusy}},
		{"by a panic", func(context.Context) (*thing, error) { panic("its own") }, outcome{panicked: "its own"}},
		{"by Goexit", func(context.Context) (*thing, error) { runtime.Goexit(); return one, nil }, outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := testenv.Redis(t)
			s := connect(t, srv.Addr())
			held := ""
			call := latchkey.Func0(s.WithLock(key), func(ctx context.Context) (*thing, error) {
				held = look(t, srv, key).owner
				return c.body(ctx)
			}, latchkey.OnBusy(func(context.Context, latchkey.Args0, *latchkey.BusyError) (*thing, error) {
				t.Error("the fallback was called though the function ran")
				return nil, nil
			}))
			if got := end(t, call); got != c.want {
				t.Errorf("ended with %+v, not %+v", got, c.want)
			}
			if held == "" {
				t.Error("the key was not held while the function ran: nothing is shown")
			}
			kept(t, srv, key, "") // at once, not some time later
			if n := s.events.count(latchkey.EventReleased); n != 1 {
				t.Errorf("released %d times", n)
			}
			release(t, s.take(t, key, latchkey.Wait(0)))
			nothingLeft(t, srv)
		})
	}
}

func TestKeyStaysIfNobodyLetsGo(t *testing.T) {
	t.Parallel()
	const key = "never ended"
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	got := end(t, func(ctx context.Context) (*thing, error) {
		if _, err := s.Acquire(ctx, key); err != nil {
			t.Error(err)
		}
		panic("its own")
	})
	if got.panicked == nil || look(t, srv, key).owner == "" {
		t.Errorf("control: ended with %+v, and the key went by itself", got)
	}
}

func TestFallbackAnswersForABusyLockAndForNothingElse(t *testing.T) {
	t.Parallel()
	const key = "fallen back"
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	two, failure := &thing{2}, errors.New("the fallback's own")
	ran := 0
	call := latchkey.Func0(s.WithLock(key), func(context.Context) (*thing, error) {
		ran++
		return &thing{1}, nil
	}, latchkey.OnBusy(func(ctx context.Context, _ latchkey.Args0, b *latchkey.BusyError) (*thing, error) {
		if s.Held(ctx, key) || b.RetryAfter <= 0 {
			t.Errorf("held %t, come back in %v", s.Held(ctx, key), b.RetryAfter)
		}
		return two, failure
	}))
	held := other.take(t, key)
	owner := look(t, srv, key).owner
	if got, want := end(t, call), (outcome{returned: true, result: two, err: failure}); got != want {
		t.Errorf("busy: ended with %+v, not %+v", got, want)
	}
	kept(t, srv, key, owner)
	release(t, held)
	if got := end(t, call); got.err != nil || got.result == two || ran != 1 {
		t.Errorf("free: ended with %+v after %d runs", got, ran)
	}
	nothingLeft(t, srv)

	srv.Kill(t)
	if got := end(t, call); !errors.Is(got.err, latchkey.ErrStore) || got.result != nil || ran != 1 {
		t.Errorf("store down: ended with %+v after %d runs", got, ran)
	}
}

func TestFunctionRunsUnlockedOnlyWhenItsConditionSaysSo(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	call := latchkey.Func(s.WithLock("order", latchkey.When("param > 0")), func(ctx context.Context, _ int) (string, error) {
		_, carried := latchkey.LeaseFrom(ctx)
		if carried != s.Held(ctx, "order") {
			t.Errorf("carries a lease: %t, held: %t", carried, s.Held(ctx, "order"))
		}
		return look(t, srv, "order").owner, nil
	})
	if owner, err := call(context.Background(), 1); owner == "" || err != nil {
		t.Errorf("the condition holds, and the function ran with the key held by %q: %v", owner, err)
	}
	kept(t, srv, "order", "")
	srv.ResetStats(t)
	if owner, err := call(context.Background(), 0); owner != "" || err != nil {
		t.Errorf("the condition does not hold, and the function ran with the key held by %q: %v", owner, err)
	}
	if n := srv.Commands(t); n["set"]+n["evalsha"] > 0 {
		t.Errorf("the server was asked for a lock: %v", n)
	}
	held := s.take(t, "order")
	if owner, err := call(context.Background(), 0); owner == "" || err != nil {
		t.Errorf("somebody holds the key, and the call that needs no lock found %q: %v", owner, err)
	}
	release(t, held)
	nothingLeft(t, srv)
}
