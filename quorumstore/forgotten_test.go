package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// A master that comes back empty has forgotten its vote. If the holder had more than a bare majority, nobody gets in, and
// the next renewal gives the vote back.
func TestAMasterThatForgotIsToldAgain(t *testing.T) {
	servers := masters(t, 5)
	one, two := lock(t, open(t, addrs(servers))), lock(t, open(t, addrs(servers)))
	lease := take(t, one, "k", latchkey.RenewedLease(3*time.Second))
	eventually(t, "all masters have given their vote", func() bool { return holders(t, servers, latchkey.OwnerPrefix) == 5 })
	owner, _, _ := strings.Cut(fmt.Sprint(servers[0].Do(t, "GET", name)), ".")
	servers[2].Restart(t, testenv.LoseData)
	if n := holders(t, servers, owner); n != 4 {
		t.Fatalf("void: %d masters know the lock, want 4", n)
	}
	if _, err := two.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("another one asks: %v, want ErrBusy", err)
	}
	eventually(t, "all masters know the lock", func() bool { return holders(t, servers, owner) == 5 })
	// Two more could forget now, and the lock would hold.
	servers[0].Restart(t, testenv.LoseData)
	servers[1].Restart(t, testenv.LoseData)
	if _, err := two.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("another one asks: %v, want ErrBusy", err)
	}
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the holder lost its lease: %v", context.Cause(lease.Context()))
	}
	release(t, lease)
	nothingLeft(t, servers)
}

// This is what no quorum can prevent: with a bare majority, one master that forgets makes room for a second holder. The
// first one hears of it at its next renewal.
func TestABareMajorityThatForgetsLetsTwoIn(t *testing.T) {
	servers := masters(t, 5)
	servers[3].Kill(t)
	servers[4].Kill(t)
	store := open(t, addrs(servers))
	one, two := lock(t, store), lock(t, open(t, addrs(servers)))
	eventually(t, "the dead masters are not asked", func() bool {
		cycle(t, one, "warm", 1)
		return len(store.OutOfService()) == 2
	})
	first := take(t, one, "k", latchkey.RenewedLease(10*time.Second))
	if n := holders(t, servers[:3], latchkey.OwnerPrefix); n != 3 {
		t.Fatalf("void: %d masters know the lock, want 3", n)
	}
	servers[2].Restart(t, testenv.LoseData)
	servers[3].Restart(t, testenv.LoseData)
	servers[4].Restart(t, testenv.LoseData)
	second := take(t, two, "k")
	if first.Context().Err() != nil {
		t.Log("the first one knew at once, from its connection")
	}
	select {
	case <-first.Context().Done():
	case <-time.After(limit):
		t.Fatal("the first holder never heard that it had lost the lock")
	}
	if err := context.Cause(first.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("cause = %v, want ErrLeaseLost", err)
	}
	if err := first.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("release of what was lost: %v, want ErrLeaseLost", err)
	}
	if err := second.Context().Err(); err != nil {
		t.Errorf("the second holder's lease went with the first: %v", err)
	}
	release(t, second)
	nothingLeft(t, servers)
}

// All masters restarted without their data, scripts included: everybody's lock is gone, and says so.
func TestWhenAllForgetTheHolderHearsOfIt(t *testing.T) {
	servers := masters(t, 3)
	locks := lock(t, open(t, addrs(servers)))
	lease := take(t, locks, "k", latchkey.RenewedLease(2*time.Second))
	for _, s := range servers {
		s.Restart(t, testenv.LoseData)
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(limit):
		t.Fatal("the holder never heard that it had lost the lock")
	}
	if err := context.Cause(lease.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("cause = %v, want ErrLeaseLost", err)
	}
	_ = lease.Release(t.Context())
	release(t, take(t, locks, "k"))
}

// Scripts are told again, for a renewal and for a release as well as for an acquire.
func TestScriptsThatAllMastersForgetAreToldAgain(t *testing.T) {
	t.Parallel()
	servers := masters(t, 3)
	var renewals counted
	locks := lock(t, open(t, addrs(servers)), latchkey.Observe(&renewals))
	forget := func() (before [3]int64) {
		for i, s := range servers {
			s.FlushScripts(t)
			before[i] = s.Commands(t)["eval"]
		}
		return before
	}
	told := func(what string, before [3]int64) {
		t.Helper()
		n := 0
		for i, s := range servers {
			if s.Commands(t)["eval"] > before[i] {
				n++
			}
		}
		if n < 2 {
			t.Errorf("void: %s: %d masters had to be told the script again", what, n)
		}
	}
	before := forget()
	lease := take(t, locks, "k", latchkey.RenewedLease(2*time.Second))
	told("acquire", before)
	before = forget()
	n := renewals.n.Load()
	eventually(t, "the lease is renewed", func() bool { return renewals.n.Load() > n || lease.Context().Err() != nil })
	told("renew", before)
	if err := lease.Context().Err(); err != nil {
		t.Errorf("scripts were forgotten and the holder hears %v", context.Cause(lease.Context()))
	}
	before = forget()
	release(t, lease)
	told("release", before)
	nothingLeft(t, servers)
}
