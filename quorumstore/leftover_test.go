package quorumstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
)

// Whatever a master does to the request for its vote, no key is left on it that nobody holds.
func TestNothingIsLeftOnAMasterThatAnsweredLateOrNever(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(c *cluster, i int)
		heal  func(t *testing.T, c *cluster, i int)
	}{
		"swallowed reply": {
			func(c *cluster, i int) { c.proxies[i].SwallowReplies() },
			func(_ *testing.T, c *cluster, i int) { c.proxies[i].Heal(); c.proxies[i].Cut() },
		},
		"request delivered late": {
			func(c *cluster, i int) { c.proxies[i].SwallowRequests() },
			func(t *testing.T, c *cluster, i int) { c.proxies[i].Heal(); c.proxies[i].Replay(t) },
		},
		"request delivered late, between release and repair": {
			func(c *cluster, i int) { c.proxies[i].SwallowRequests() },
			func(t *testing.T, c *cluster, i int) { c.proxies[i].Deliver(t); c.proxies[i].Heal() },
		},
		"slow": {
			func(c *cluster, i int) { c.proxies[i].DelayReplies(500 * time.Millisecond) },
			func(_ *testing.T, c *cluster, i int) { c.proxies[i].Heal() },
		},
	} {
		for _, bad := range []int{1, 2, 3} { // two of five masters are a minority, three are not
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cl := start(t, 5)
				locks := lock(t, open(t, cl.addrs()))
				cycle(t, locks, "warm", 3) // connections and scripts
				for i := range bad {
					c.spoil(cl, i)
				}
				// The lease is long: what is left would be there for the rest of the test.
				lease, err := locks.Acquire(t.Context(), "k", latchkey.RenewedLease(time.Hour))
				switch {
				case err == nil:
					_ = lease.Release(context.Background())
				case bad < 3 || !errors.Is(err, latchkey.ErrStore):
					t.Fatal(err)
				}
				for i := range bad {
					cl.proxies[i].AwaitFaults(t, 1)
					c.heal(t, cl, i)
				}
				for _, s := range cl.servers {
					eventually(t, "the lock is gone", func() bool {
						v := s.Do(t, "GET", "latchkey:k")
						if v != nil {
							cycle(t, locks, "other", 1)
						}
						return v == nil
					})
				}
				// Late copies are barred now, and the lock is free for others.
				release(t, take(t, lock(t, open(t, cl.addrs())), "k"))
			})
		}
	}
}

// A master is stopped with the request in its buffers and comes back after the lock was let go: the vote it then gives is
// taken back, though the lease would have kept it for an hour.
func TestAPausedMasterGivesItsVoteTooLate(t *testing.T) {
	c := start(t, 3)
	locks := lock(t, open(t, c.addrs()))
	cycle(t, locks, "warm", 3)
	before := c.servers[1].Commands(t)["evalsha"]
	c.servers[1].Pause(t)
	lease := take(t, locks, "k", latchkey.RenewedLease(time.Hour))
	release(t, lease)
	c.servers[1].Resume(t)
	eventually(t, "the late request and its undoing have arrived", func() bool {
		return c.servers[1].Commands(t)["evalsha"] >= before+2
	})
	eventually(t, "the lock is gone", func() bool { return c.servers[1].Do(t, "GET", "latchkey:k") == nil })
}

// Half of an acquire: the masters that gave their vote to one who did not get a majority have it back at once.
func TestAnAcquireThatGotHalfTheVotesLeavesNothing(t *testing.T) {
	servers := masters(t, 5)
	for _, s := range servers[:3] {
		s.Do(t, "SET", "latchkey:k", "somebody else", "PX", "3600000")
	}
	locks := lock(t, open(t, addrs(servers)))
	if _, err := locks.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
		t.Fatalf("err = %v, want ErrBusy", err)
	}
	if n := servers[3].Commands(t)["set"] + servers[4].Commands(t)["set"]; n == 0 {
		t.Fatal("void: no vote was given")
	}
	nothingLeft(t, servers[3:])
}

// The caller's deadline ends in the middle of an acquire.
func TestADeadlineInTheMiddleOfAnAcquireLeavesNothing(t *testing.T) {
	c := start(t, 5)
	locks := lock(t, open(t, c.addrs()))
	cycle(t, locks, "warm", 3)
	for i := range 3 {
		c.proxies[i].SwallowReplies()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := locks.Acquire(ctx, "k", latchkey.RenewedLease(time.Hour))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, latchkey.ErrStore) {
		t.Fatalf("err = %v, want ErrStore and the deadline", err)
	}
	for i := range 3 {
		c.proxies[i].AwaitFaults(t, 1)
		c.proxies[i].Heal()
		c.proxies[i].Cut()
	}
	for _, s := range c.servers {
		eventually(t, "the lock is gone", func() bool { return s.Do(t, "GET", "latchkey:k") == nil })
	}
}

// The reply to the request for a vote is lost; asking again says "yours".
func TestAskingAgainAfterALostReplySaysYours(t *testing.T) {
	c := start(t, 3)
	store := open(t, c.addrs())
	op := latchkey.Op{Kind: latchkey.OpAcquire, Key: "latchkey:k", Owner: "lk:A", Lease: time.Minute}
	for _, p := range c.proxies[:2] {
		p.SwallowReplies()
	}
	first := op
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	store.Do(ctx, []*latchkey.Op{&first})
	if first.Err == nil {
		t.Fatal("void: the answer arrived")
	}
	for _, p := range c.proxies[:2] {
		p.Heal()
		p.Cut()
	}
	if again := do(store, op); !again.OK {
		t.Errorf("asked again: OK = %t, %v", again.OK, again.Err)
	}
	if other := do(store, latchkey.Op{Kind: latchkey.OpAcquire, Key: op.Key, Owner: "lk:B", Lease: time.Minute}); other.OK || other.Err != nil {
		t.Errorf("another owner: OK = %t, %v; want a refusal", other.OK, other.Err)
	}
	if r := do(store, latchkey.Op{Kind: latchkey.OpRelease, Key: op.Key, Owner: op.Owner}); !r.OK {
		t.Errorf("release: OK = %t, %v", r.OK, r.Err)
	}
}
