package quorumstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/quorumstore"
)

const lateKey = "latchkey:k"

func acquireOp() latchkey.Op {
	return latchkey.Op{Kind: latchkey.OpAcquire, Key: lateKey, Owner: "lk:A", Lease: time.Hour}
}

func releaseOp() latchkey.Op {
	return latchkey.Op{Kind: latchkey.OpRelease, Key: lateKey, Owner: "lk:A"}
}

// The majority has answered and the lock was let go before the goroutine that asks the last master came to run: it must not
// ask any more, since nobody would take that vote back.
func TestAVoteIsNotAskedForAfterTheRelease(t *testing.T) {
	servers := masters(t, 3)
	store := open(t, addrs(servers))
	gate := make(chan struct{})
	quorumstore.HoldBack(store, 2, gate)
	if r := do(store, acquireOp()); !r.OK {
		t.Fatalf("acquire: %v", r.Err)
	}
	released := make(chan latchkey.Op, 1)
	go func() { released <- do(store, releaseOp()) }()
	for _, s := range servers[:2] {
		eventually(t, "the others have let go", func() bool { return s.Do(t, "GET", lateKey) == nil })
	}
	close(gate)
	if r := <-released; !r.OK {
		t.Errorf("release: OK = %t, %v", r.OK, r.Err)
	}
	eventually(t, "every vote is cast", func() bool { return quorumstore.Flying(store) == 0 })
	if v := servers[2].Do(t, "GET", lateKey); v != nil {
		t.Errorf("the last master still has the lock, of %v", v)
	}
}

// A request for a vote is held up; the next renewal finds the vote missing and asks for it again, with success. That does not
// make the first request harmless: when it arrives, after the release, it must be refused.
func TestAVoteThatWasAskedForTwiceIsNotGivenAfterTheRelease(t *testing.T) {
	c := start(t, 3)
	store := open(t, c.addrs())
	warm := acquireOp()
	warm.Key = "latchkey:warm"
	do(store, warm)
	late, server := c.proxies[2], c.servers[2]
	eventually(t, "all know the script", func() bool { return server.Do(t, "GET", warm.Key) != nil })
	late.SwallowRequests()
	if r := do(store, acquireOp()); !r.OK {
		t.Fatalf("acquire: %v", r.Err)
	}
	late.AwaitFaults(t, 1)
	late.Heal()
	eventually(t, "the vote was asked for again", func() bool {
		renewal := acquireOp()
		renewal.Kind = latchkey.OpRenew
		if r := do(store, renewal); !r.OK {
			t.Fatalf("renew: %v", r.Err)
		}
		return server.Do(t, "GET", lateKey) != nil
	})
	if r := do(store, releaseOp()); !r.OK {
		t.Fatalf("release: %v", r.Err)
	}
	eventually(t, "the release has arrived", func() bool { return server.Do(t, "GET", lateKey) == nil })
	before := server.Commands(t)["evalsha"]
	late.Deliver(t)
	eventually(t, "the late request has arrived", func() bool { return server.Commands(t)["evalsha"] > before })
	if v := server.Do(t, "GET", lateKey); v != nil {
		t.Errorf("the late request took the lock for %v", v)
	}
}

// A request that could not be sent while anybody waited for its answer is not sent afterwards.
func TestARequestThatNobodyWaitsForIsNotSent(t *testing.T) {
	servers := masters(t, 3)
	store := open(t, addrs(servers))
	if err := quorumstore.AskTooLate(store, 0); err == nil {
		t.Error("it was answered")
	}
	if sent := servers[0].Commands(t); sent["evalsha"]+sent["eval"] != 0 {
		t.Errorf("the server was asked: %v", sent)
	}
}

// The requests of a process that has died arrive when it is gone: nobody takes back what they do.
func TestCopiesOfADeadOwnerBlockForOneLease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	c := start(t, 3)
	next := lock(t, open(t, addrs(c.servers)))
	cycle(t, next, "warm", 3) // the masters know the script
	for _, p := range c.proxies {
		p.SwallowRequests(testenv.Containing("latchkey:" + heldKey(0)))
	}
	child := hold(t, lease, 1, c.addrs())
	for _, p := range c.proxies {
		p.AwaitFaults(t, 1)
	}
	child.Kill(t)
	for _, p := range c.proxies {
		p.Heal()
		p.Replay(t)
	}
	end := majorityEnd(t, c.servers, heldKey(0))
	if left := time.Until(end); left > lease {
		t.Errorf("late copies took the lock for %v; the lease is %v", left, lease)
	}
	if _, err := next.Acquire(t.Context(), heldKey(0)); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("after late copies the answer is %v", err)
	}
	inTime(t, next, heldKey(0), end)
	free(t, c.servers, heldKey(0))
}
