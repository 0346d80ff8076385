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

func TestGivenUpPlaceIsNotKeptBehindAnOlderFailure(t *testing.T) {
	t.Parallel()
	const key, rounds = "given up", 7
	srv := testenv.Redis(t)
	m := watch(t, srv)
	a, b := connect(t, srv.Addr()), connect(t, srv.Addr(), latchkey.OpTimeout(opTimeout))
	// A request without an answer: for a whole lease it is taken back every second.
	srv.Pause(t)
	if _, err := b.Acquire(context.Background(), "unanswered"); !errors.Is(err, latchkey.ErrStore) {
		t.Fatalf("the server hangs and answers %v", err)
	}
	srv.Resume(t)
	var repeated []told
	eventually(t, "it is taken back every second", func() bool {
		repeated = m.between(0, m.mark(t), leaves)
		n := len(repeated)
		return n > 2 && repeated[n-1].at.Sub(repeated[n-2].at) > 900*time.Millisecond
	})

	held := a.take(t, key)
	var took []time.Duration
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		answer := make(chan error, 1)
		go func() {
			_, err := b.Acquire(ctx, key, latchkey.WaitForever())
			answer <- err
		}()
		b.events.await(t, latchkey.EventWaiting, round+1)
		begin := time.Now()
		cancel()
		if err := hear(t, "the cancelled wait has ended", answer); !errors.Is(err, latchkey.ErrBusy) {
			t.Error(err)
		}
		eventually(t, "the place in the queue is given up", func() bool {
			return number(t, srv.Do(t, "ZCARD", queueOf(key))) == 0
		})
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("places in the queue were given up after %v", took)
	if middle := took[rounds/2]; middle > 200*time.Millisecond {
		t.Errorf("a waiter gave up, and its place in the queue stood for %v", middle)
	}
	release(t, held)
}
