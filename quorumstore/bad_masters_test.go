package quorumstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/quorumstore"
)

// faults are the ways in which a master can be bad.
var faults = map[string]func(t *testing.T, c *cluster, i int){
	"dead":   func(t *testing.T, c *cluster, i int) { c.servers[i].Kill(t); c.proxies[i].Refuse(); c.proxies[i].Cut() },
	"paused": func(t *testing.T, c *cluster, i int) { c.servers[i].Pause(t) },
	"slow":   func(_ *testing.T, c *cluster, i int) { c.proxies[i].DelayReplies(400 * time.Millisecond) },
	"silent": func(_ *testing.T, c *cluster, i int) { c.proxies[i].SwallowRequests() },
}

// Two bad masters of five: everything goes on, and once that has been noticed nobody is held up by them, which shows in
// how seldom they are asked.
func TestOneOrTwoBadMastersStallNobody(t *testing.T) {
	const rounds = 100
	for name, spoil := range faults {
		for _, bad := range [][]int{{1}, {0, 3}} {
			t.Run(fmt.Sprintf("%d %s", len(bad), name), func(t *testing.T) {
				t.Parallel()
				c := start(t, 5)
				store := open(t, c.addrs())
				locks := lock(t, store)
				cycle(t, locks, "warm", 20)
				healthy := cycle(t, locks, "k", rounds)
				if out := store.OutOfService(); len(out) > 0 {
					t.Logf("out of service though well: %v", out)
				}
				held := take(t, locks, "held", latchkey.RenewedLease(2*time.Second))
				for _, i := range bad {
					spoil(t, c, i)
				}
				eventually(t, "the bad masters are out of service", func() bool {
					cycle(t, locks, "k", 1)
					return slices.Equal(store.OutOfService(), bad)
				})
				before := requests(c, bad)
				after := cycle(t, locks, "k", rounds)
				asked := requests(c, bad) - before
				if asked > rounds/4 {
					t.Errorf("bad masters were asked %d times in %d rounds: each may have cost somebody a wait", asked, rounds)
				}
				t.Logf("lock+unlock p50 %v → %v, p99 %v → %v (%.2f times); bad masters asked %d times in %d rounds",
					at(healthy, 50), at(after, 50), at(healthy, 99), at(after, 99),
					float64(at(after, 99))/float64(at(healthy, 99)), asked, rounds)
				// The watchdog goes on too.
				eventually(t, "the lease was renewed by the others", func() bool {
					return held.Context().Err() != nil || renewals(t, c, bad) > 0
				})
				release(t, held)
			})
		}
	}
}

func requests(c *cluster, which []int) (n int) {
	for _, i := range which {
		n += c.proxies[i].Counts().Requests + c.proxies[i].Counts().Refused
	}
	return n
}

// renewals is how often a good master was asked to renew.
func renewals(t *testing.T, c *cluster, bad []int) int64 {
	t.Helper()
	for i, s := range c.servers {
		if !slices.Contains(bad, i) {
			return s.Commands(t)["pexpire"]
		}
	}
	return 0
}

func TestABadMasterComesBack(t *testing.T) {
	c := start(t, 3)
	store := open(t, c.addrs())
	locks := lock(t, store)
	cycle(t, locks, "k", 5)
	c.servers[2].Pause(t)
	eventually(t, "the paused master is out of service", func() bool {
		cycle(t, locks, "k", 1)
		return len(store.OutOfService()) == 1
	})
	c.servers[2].Resume(t)
	eventually(t, "the master is back in service", func() bool {
		cycle(t, locks, "k", 1)
		return len(store.OutOfService()) == 0
	})
	lease := take(t, locks, "k")
	eventually(t, "it has a vote again", func() bool { return holders(t, c.servers[2:], latchkey.OwnerPrefix) == 1 })
	release(t, lease)
}

// Three bad masters of five: nobody can know who has a lock.
func TestWithoutAMajorityTheAnswerIsErrStore(t *testing.T) {
	const opTimeout = 2 * time.Second
	for name, spoil := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, 5)
			locks := lock(t, open(t, c.addrs()), latchkey.OpTimeout(opTimeout))
			cycle(t, locks, "k", 5)
			if name == "slow" {
				// Slow is not dead: with nobody faster, they are waited for.
				for i := range 3 {
					spoil(t, c, i)
				}
				cycle(t, locks, "k", 1)
				return
			}
			for i := range 3 {
				spoil(t, c, i)
			}
			ran := false
			f := latchkey.Action0(locks.WithLock("k"), func(_ ctx) error { ran = true; return nil })
			for range 2 { // before and after it is known
				begin := time.Now()
				err := f(t.Context())
				took := time.Since(begin)
				t.Logf("after %v: %v", took.Round(time.Millisecond), err)
				if took > opTimeout*3/2 {
					t.Errorf("the answer took %v; an op timeout is %v", took, opTimeout)
				}
				if ran || !errors.Is(err, latchkey.ErrStore) {
					t.Fatalf("ran = %t, err = %v; want ErrStore", ran, err)
				}
				var quorum *quorumstore.NoQuorumError
				if errors.As(err, &quorum) && (quorum.Answered != 2 || quorum.Quorum != 3 || len(quorum.Errs) != 3) {
					t.Errorf("%+v", quorum)
				}
			}
		})
	}
}
