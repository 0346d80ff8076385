//go:build unix

package itest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// listed wraps a function that tells which keys the server has while it runs.
func listed(
	t *testing.T, srv *testenv.Server, s *service, opts ...latchkey.DecoratorOption,
) func(context.Context, []string) ([]string, error) {
	t.Helper()
	return latchkey.Func(s.WithLock("item:#{param}", opts...), func(context.Context, []string) ([]string, error) {
		return srv.Keys(t), nil
	})
}

func fullItems(names ...string) (keys []string) {
	for _, n := range names {
		keys = append(keys, full("item:"+n))
	}
	return keys
}

func TestListIsTakenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	m := watch(t, srv)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	call := listed(t, srv, s)
	ctx := context.Background()

	during, err := call(ctx, []string{"c", "a", "b", "a"})
	if err != nil || !slices.Equal(during, fullItems("a", "b", "c")) {
		t.Errorf("under the lock of a, b and c the server has %v: %v", during, err)
	}
	nothingLeft(t, srv)

	for _, taken := range []string{"a", "b", "c"} {
		held := other.take(t, "item:"+taken)
		from := m.mark(t)
		during, err := call(ctx, []string{"a", "b", "c"})
		if during != nil {
			t.Errorf("%s is taken, the function ran and the server has %v", taken, during)
		}
		if b := busy(t, "item:"+taken, err); b.RetryAfter <= 0 {
			t.Errorf("come back in %v", b.RetryAfter)
		}
		if sets := m.said(from, m.mark(t), "SET"); len(sets) > 0 {
			t.Errorf("%s is taken, and still the server was told %v", taken, sets)
		}
		if left := srv.Keys(t); !slices.Equal(left, fullItems(taken)) {
			t.Errorf("after the refusal the server has %v", left)
		}
		release(t, held)
	}
	nothingLeft(t, srv)
}

func TestHalfTakenListIsGivenBack(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	m := watch(t, srv)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	cause := errors.New("the customer left")
	for _, way := range []string{"its wait ends", "its context ends"} {
		t.Run(way, func(t *testing.T) {
			held := other.take(t, "item:c")
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			wait := latchkey.Wait(300 * time.Millisecond)
			if way == "its context ends" {
				wait = latchkey.WaitForever()
			}
			from, waits := m.mark(t), s.events.count(latchkey.EventWaiting)
			answer := make(chan error, 1)
			go func() {
				during, err := listed(t, srv, s, wait)(ctx, []string{"a", "b", "c"})
				if during != nil {
					t.Errorf("the function ran, and the server had %v", during)
				}
				answer <- err
			}()
			s.events.await(t, latchkey.EventWaiting, waits+1)
			if way == "its context ends" {
				// The dangerous moment: two of three are taken.
				eventually(t, "two keys are taken", func() bool {
					keys := srv.Keys(t)
					return slices.Contains(keys, full("item:a")) && slices.Contains(keys, full("item:b"))
				})
				cancel(cause)
			}
			err := hear(t, "the caller has given up", answer)
			busy(t, "item:c", err)
			if way == "its context ends" && !errors.Is(err, cause) {
				t.Errorf("cancelled because %v and says %v", cause, err)
			}
			if sets := m.said(from, m.mark(t), "SET"); len(sets) < 2 {
				t.Errorf("only %d keys were taken: nothing is shown", len(sets))
			}
			for _, name := range []string{"a", "b"} {
				if look(t, srv, "item:"+name).owner != "" {
					t.Errorf("%s is still locked when the call has returned", name)
				}
			}
			release(t, held)
			nothingLeft(t, srv)
		})
	}
}

func TestListThatWaitsGetsInWhenTheLastKeyIsFree(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	a, c := other.take(t, "item:a"), other.take(t, "item:c")
	answer := make(chan []string, 1)
	go func() {
		during, err := listed(t, srv, s, latchkey.Wait(patience))(context.Background(), []string{"c", "b", "a"})
		if err != nil {
			t.Error(err)
		}
		answer <- during
	}()
	s.events.await(t, latchkey.EventWaiting, 1)
	release(t, c)
	release(t, a)
	if during := hear(t, "the waiter is in", answer); !slices.Equal(during, fullItems("a", "b", "c")) {
		t.Errorf("under the lock of a, b and c the server has %v", during)
	}
	nothingLeft(t, srv)
}
