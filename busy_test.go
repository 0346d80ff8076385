package latchkey_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Whoever queued behind a holder of its own process was told nothing about when to come back: RetryAfter was zero.
func TestAWaitInOnesOwnProcessTellsWhenToComeBack(t *testing.T) {
	const lease, wait = 30 * time.Second, 2 * time.Second
	for name, c := range map[string]struct {
		local int // callers of the process that have come before
		cause error
		wait  time.Duration
	}{
		"behind a holder here":                     {0, nil, wait},
		"behind a holder here, without a wait":     {0, nil, 0},
		"behind a holder here, until the ctx ends": {0, context.DeadlineExceeded, time.Hour},
		"behind a waiter here":                     {1, nil, wait},
		"behind a waiter here, without a wait":     {1, nil, 0},
		"behind a waiter here, until the ctx ends": {1, context.DeadlineExceeded, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				here, there := latchkey.New(store), latchkey.New(store)
				defer here.Close()
				defer there.Close()
				holds := here
				if c.local > 0 {
					holds = there
				}
				held, err := holds.Acquire(t.Context(), "k", latchkey.LeaseFor(lease))
				if err != nil {
					t.Fatal(err)
				}
				for range c.local {
					go func() {
						if first, err := here.Acquire(context.Background(), "k", latchkey.WaitForever()); err == nil {
							_ = first.Release(context.Background())
						}
					}()
				}
				synctest.Wait()
				ctx := t.Context()
				if c.cause != nil {
					end, cancel := context.WithTimeout(ctx, wait)
					defer cancel()
					ctx = end
				}
				_, err = here.Acquire(ctx, "k", latchkey.Wait(c.wait))
				var busy *latchkey.BusyError
				if !errors.As(err, &busy) || !errors.Is(busy.Cause, c.cause) {
					t.Fatalf("got %v", err)
				}
				// A hundredth less: the clocks of two processes may differ by that.
				if want := lease - busy.Waited; busy.RetryAfter > want || busy.RetryAfter < want-lease/100 {
					t.Errorf("waited %v, then told to come back in %v, want %v", busy.Waited, busy.RetryAfter, want)
				}
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			})
		})
	}
}
