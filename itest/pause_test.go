//go:build unix

package itest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

// shortPause is longer than a running process stands still.
const shortPause = 30 * time.Millisecond

func TestHolderPausedPastItsLeaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	const key = "paused"
	srv := testenv.Redis(t)
	child, s := holdIn(t, srv, key, 500*time.Millisecond), connect(t, srv.Addr())
	before := look(t, srv, key)
	child.Pause(t)
	lease := s.take(t, key) // the dangerous moment: two processes believe they have it
	if now := look(t, srv, key); now.owner == before.owner || now.owner == "" {
		t.Fatalf("nobody else got in: nothing is shown")
	}
	child.Sayf(t, "look")
	child.Resume(t)
	expect(t, child, lostIt)
	child.Sayf(t, "return")
	expect(t, child, endedLost)
	if now := look(t, srv, key); now.owner == "" {
		t.Error("the paused holder has released the lock of the one who came after it")
	}
	release(t, lease)
}

// alone is a process whose locks are in its memory. It holds one, and tells what the lease's context says.
//
//	args   lease
//	says   "held"
//	hears  "look"    and says what the context says, see verdict
//	hears  anything  and lets go
func alone(self *testenv.Self) {
	length, err := time.ParseDuration(self.Args[0])
	if err != nil {
		self.Failf("%v", err)
	}
	locks := latchkey.New(memstore.New())
	lease, err := locks.Acquire(context.Background(), "alone", latchkey.RenewedLease(length))
	if err != nil {
		self.Failf("%v", err)
	}
	self.Sayf("held")
	for {
		if line, _ := self.Hear(); line != "look" {
			break
		}
		self.Sayf("%s", verdict(lease.Context()))
	}
	_ = lease.Release(context.Background())
	locks.Close()
}

func TestHolderInMemoryPausedPastItsLeaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	child := testenv.Child(t, "alone", testenv.Args(lease.String()))
	expect(t, child, "held")
	child.Sayf(t, "look")
	expect(t, child, stillHeld) // the control
	child.Pause(t)
	<-time.After(lease * 2) // nobody outside can tell when it ends
	child.Sayf(t, "look")
	child.Resume(t)
	expect(t, child, lostIt)
	child.Sayf(t, "return")
}

func TestHolderPausedForLessThanItsLeaseKeepsIt(t *testing.T) {
	t.Parallel()
	const lease, key = 6 * time.Second, "napped"
	srv := testenv.Redis(t)
	child := holdIn(t, srv, key, lease)
	child.Pause(t)
	// A renewal comes when two thirds are left; less than that shows that one was missed.
	eventually(t, "a renewal was missed", func() bool { return look(t, srv, key).left < lease*6/10 })
	child.Sayf(t, "look")
	child.Resume(t)
	expect(t, child, stillHeld)
	eventually(t, "the lease was renewed after the pause", func() bool { return look(t, srv, key).left > lease*7/10 })
	child.Sayf(t, "return")
	expect(t, child, endedWell)
}

// spinner is a process that asks its context again and again, and counts the answers that came too late: a context that
// says it is fine when the lease was over before it was asked.
//
//	args   address, key, lease, whose context: "lease" or "timer"
//	hears  anything, takes the lock, says "held" and asks until the answer is an error
//	says   how many answers were wrong, and the longest time between two answers
func spinner(self *testenv.Self) {
	lease, err := time.ParseDuration(self.Args[2])
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	s := connect(env, self.Args[0])
	for {
		if _, more := self.Hear(); !more {
			break
		}
		l, err := s.Acquire(context.Background(), self.Args[1], latchkey.Wait(patience), latchkey.LeaseFor(lease))
		if err != nil {
			self.Failf("%v", err)
		}
		end := time.Now().Add(lease)
		ctx, cancel := l.Context(), context.CancelFunc(func() {})
		if self.Args[3] == "timer" {
			ctx, cancel = context.WithDeadline(context.Background(), end)
		}
		self.Sayf("held")
		wrong, longest := 0, time.Duration(0)
		asked := time.Now()
		for ctx.Err() == nil {
			now := time.Now()
			if asked.After(end) {
				wrong++
			}
			longest = max(longest, now.Sub(asked))
			asked = now
		}
		longest = max(longest, time.Since(asked))
		cancel()
		_ = l.Release(context.Background()) // it has ended
		self.Sayf("%d %d", wrong, longest)
	}
	env.Close()
}

// spin pauses a spinner in the middle of its lease, for longer than that. It returns how many wrong answers the spinner
// got, and for how long it stood still between two answers.
func spin(t *testing.T, srv *testenv.Server, child *testenv.ChildProcess, key string) (wrong int, stood time.Duration) {
	t.Helper()
	child.Sayf(t, "go")
	expect(t, child, "held")
	child.Pause(t)
	eventually(t, "the lease has ended", func() bool { return look(t, srv, key).owner == "" })
	child.Resume(t)
	if _, err := fmt.Sscan(child.Hear(t), &wrong, &stood); err != nil {
		t.Fatal(err)
	}
	return wrong, stood
}

func TestNoAnswerAfterAPauseIsOutOfDate(t *testing.T) {
	t.Parallel()
	const key, lease, rounds = "spun", "150ms", 10
	srv := testenv.Redis(t)
	child := testenv.Child(t, "spinner", testenv.Args(srv.Addr(), key, lease, "lease"))
	pauses := 0
	for range rounds {
		wrong, stood := spin(t, srv, child, key)
		if wrong > 0 {
			t.Errorf("after a pause %d answers said that the lease still held", wrong)
		}
		if stood > shortPause {
			pauses++
		}
	}
	if pauses < rounds/2 {
		t.Errorf("only %d of %d pauses fell between two answers: nothing is shown", pauses, rounds)
	}
}

func TestTimerAloneAnswersOutOfDateAfterAPause(t *testing.T) {
	t.Parallel()
	const key, lease, rounds = "timed", "150ms", 50
	srv := testenv.Redis(t)
	child := testenv.Child(t, "spinner", testenv.Args(srv.Addr(), key, lease, "timer"))
	for round := range rounds {
		if wrong, stood := spin(t, srv, child, key); wrong > 0 && stood > shortPause {
			t.Logf("round %d: %d wrong answers", round+1, wrong)
			return
		}
	}
	t.Errorf("a context that only has a timer was never wrong in %d pauses: the harness sees nothing", rounds)
}
