//go:build unix

package itest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// heldOver runs a function under a lock until its context ends, and returns why and after how long.
func heldOver(t *testing.T, s *service, key string, lease time.Duration, meanwhile func()) (after time.Duration, cause error) {
	t.Helper()
	inside := make(chan struct{})
	ended := make(chan error, 1)
	var begin time.Time
	hold := latchkey.Func(s.WithLock("#{param}", latchkey.RenewedLease(lease)), func(ctx context.Context, _ string) (int, error) {
		close(inside)
		<-ctx.Done()
		cause = context.Cause(ctx)
		after = time.Since(begin)
		return 42, nil
	})
	begin = time.Now()
	go func() {
		n, err := hold(context.Background(), key)
		if n != 42 {
			t.Errorf("the function's result has become %d", n)
		}
		ended <- err
	}()
	hear(t, "the function runs", inside)
	meanwhile()
	if err := hear(t, "the function has heard of the loss", ended); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("the lease was lost and the call returned %v", err)
	}
	return after, cause
}

func TestLeaseThatTheServerForgotIsLostAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	const key, lease = "forgotten", 6 * time.Second
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	after, cause := heldOver(t, s, key, lease, func() {
		srv.Restart(t, testenv.LoseData)
		// The dangerous moment: only fencing can tell the two apart now.
		release(t, other.take(t, key, latchkey.Wait(0)))
	})
	t.Logf("after %v: %v", after, cause)
	if !errors.Is(cause, latchkey.ErrLeaseLost) {
		t.Errorf("the context ended because of %v", cause)
	}
	if after > lease*9/10 {
		t.Errorf("the loss was noticed only after %v, when the lease of %v had ended anyhow", after, lease)
	}
	nothingLeft(t, srv)
}

// A lease that is never renewed is never asked about: two may run until it ends by the clock.
func TestForgottenFixedLeaseIsHeldToItsEnd(t *testing.T) {
	t.Parallel()
	const key, lease = "forgotten, fixed", 2 * time.Second
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	held := s.take(t, key, latchkey.LeaseFor(lease))
	begin := time.Now()
	srv.Restart(t, testenv.LoseData)
	second := other.take(t, key)
	eventually(t, "two thirds of the lease are over", func() bool { return time.Since(begin) > lease*2/3 })
	if time.Since(begin) < lease*9/10 && held.Context().Err() != nil {
		t.Errorf("the holder hears %v after %v; which is better than is promised", context.Cause(held.Context()), time.Since(begin))
	}
	hear(t, "the lease has ended", held.Context().Done())
	if cause := context.Cause(held.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) || time.Since(begin) > lease+5*time.Second {
		t.Errorf("the lease of %v ended after %v: %v", lease, time.Since(begin), cause)
	}
	if second.Context().Err() != nil {
		t.Error("the second holder has lost it too")
	}
	release(t, second)
}

func TestForgottenLeaseIsLostAtOnceIfTheSubscriptionBreaks(t *testing.T) {
	t.Parallel()
	const key, lease = "forgotten at once", time.Minute // whose next renewal is 20 s away
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	// Whoever has waited once is subscribed.
	first := other.take(t, "before")
	waited := make(chan error, 1)
	go func() {
		l, err := s.Acquire(context.Background(), "before", latchkey.Wait(patience))
		if err == nil {
			err = l.Release(context.Background())
		}
		waited <- err
	}()
	s.events.await(t, latchkey.EventWaiting, 1)
	release(t, first)
	if err := hear(t, "the waiter was in", waited); err != nil {
		t.Fatal(err)
	}
	after, cause := heldOver(t, s, key, lease, func() { srv.Restart(t, testenv.LoseData) })
	t.Logf("after %v: %v", after, cause)
	if !errors.Is(cause, latchkey.ErrLeaseLost) || after > lease/4 {
		t.Errorf("the loss was noticed after %v: %v", after, cause)
	}
}

func TestLeaseThatTheServerKeptSurvivesItsRestart(t *testing.T) {
	t.Parallel()
	const key, lease = "kept", 3 * time.Second
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	held := s.take(t, key, latchkey.RenewedLease(lease))
	srv.Restart(t, testenv.KeepData)
	s.events.await(t, latchkey.EventRenewed, s.events.count(latchkey.EventRenewed)+1)
	if err := held.Context().Err(); err != nil {
		t.Errorf("the server kept the key and the holder hears %v", context.Cause(held.Context()))
	}
	release(t, held)
	nothingLeft(t, srv)
}

// The answers come late, so that whoever counts a lease from the moment it was answered counts on too much.
func TestLeaseThatCannotBeRenewedIsLostBeforeItEndsOnTheServer(t *testing.T) {
	t.Parallel()
	const key, lease, late = "cut off", 3 * time.Second, 200 * time.Millisecond
	srv := testenv.Redis(t)
	proxy := testenv.NewProxy(t, srv.Addr())
	s := connect(t, proxy.Addr())
	if err := s.client.Ping(context.Background()).Err(); err != nil { // there is a connection already
		t.Fatal(err)
	}
	proxy.DelayReplies(late)
	var naive, held time.Time
	inside := make(chan struct{})
	returned := make(chan error, 1)
	hold := latchkey.Action0(s.WithLock(key, latchkey.RenewedLease(lease)), func(ctx context.Context) error {
		naive = time.Now().Add(lease)
		close(inside)
		// The clock is read before the question: at that moment at least it was held.
		for now := time.Now(); ctx.Err() == nil; now = time.Now() {
			held = now
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Microsecond):
			}
		}
		return nil
	})
	go func() { returned <- hold(context.Background()) }()
	hear(t, "the function runs", inside)
	before := look(t, srv, key)
	srv.Pause(t)
	if err := hear(t, "the function has heard of the loss", returned); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("the lease was lost and the call returned %v", err)
	}
	t.Logf("held until %v before the end on the server", before.end().Sub(held))
	if !held.Before(before.end().Add(-tick)) {
		t.Errorf("the holder believed in its lease for %v too long", held.Sub(before.end()))
	}
	if left := before.end().Sub(held); left > lease/2 {
		t.Errorf("the lease was given up %v before its end", left)
	}
	if s.events.count(latchkey.EventRenewed) > 0 || s.events.count(latchkey.EventRenewFailed) == 0 {
		t.Error("void: the lease was renewed, or nobody tried to")
	}
	// The control: who counts from the answer.
	if !naive.After(before.end().Add(late / 2)) {
		t.Errorf("a lease counted from the answer ends %v after the server's", naive.Sub(before.end()))
	}
	srv.Resume(t)
}

// A holder that has never waited listens all the same, once it has held on for long enough to renew.
func TestForgottenLeaseOfAHolderThatNeverWaitedIsLostAtOnce(t *testing.T) {
	t.Parallel()
	const key, lease = "forgotten by a holder", 9 * time.Second
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	after, cause := heldOver(t, s, key, lease, func() {
		s.events.await(t, latchkey.EventRenewed, 1)
		eventually(t, "the holder is subscribed", func() bool {
			return len(srv.Do(t, "PUBSUB", "CHANNELS").([]any)) == 1
		})
		srv.Restart(t, testenv.LoseData)
	})
	if soon := lease/3 + lease/6; !errors.Is(cause, latchkey.ErrLeaseLost) || after > soon {
		t.Errorf("the lease was first renewed after %v and the loss was noticed after %v: %v", lease/3, after, cause)
	}
}
