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

// inTime checks that somebody gets in when the lease ends that was seen before, and not earlier.
func inTime(t *testing.T, srv *testenv.Server, s *service, key string, before sight) {
	t.Helper()
	if before.owner == "" {
		t.Fatal("void: nobody holds the key")
	}
	late := entry(t, srv, s, key, before)
	t.Logf("the lease had %v to go; the next one got in %v after its end", before.left, late)
	if late < -tick {
		t.Errorf("the next one got in %v before the lease had ended", -late)
	}
	if late > 5*time.Second {
		t.Errorf("the next one got in only %v after the lease had ended", late)
	}
}

func TestReleaseThatNeverArrivesBlocksForOneLease(t *testing.T) {
	t.Parallel()
	const key = "kept"
	subtests := make(map[string]func(t *testing.T))
	for name, lease := range map[string]time.Duration{
		"the store stays out of reach":   time.Second,
		"the store can be reached again": time.Hour,
	} {
		subtests[name] = func(t *testing.T) {
			srv := testenv.Redis(t)
			proxy := testenv.NewProxy(t, srv.Addr())
			s, other := connect(t, proxy.Addr(), latchkey.OpTimeout(opTimeout)), connect(t, srv.Addr())
			held := s.take(t, key, latchkey.RenewedLease(lease))
			proxy.Refuse()
			proxy.Cut()
			before := look(t, srv, key)
			if err := held.Release(context.Background()); !errors.Is(err, latchkey.ErrStore) {
				t.Errorf("the store is out of reach and the release says %v", err)
			}
			if lease < time.Minute {
				if before.left > lease {
					t.Errorf("%v are left of a lease of %v", before.left, lease)
				}
				inTime(t, srv, other, key, before)
				return
			}
			proxy.Heal()
			if late := entry(t, srv, other, key, before); late > -lease/2 {
				t.Errorf("the release could be repeated and the next one had to wait until %v after the lease", late)
			}
		}
	}
	abreast(t, subtests)
}

// The lock goes to a process that stands still, and so does not say that it is not there.
func TestWaiterThatDiesAsItIsGivenTheLockBlocksForTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	const key, granted = "given", 2 * time.Second
	subtests := make(map[string]func(t *testing.T))
	for _, lease := range []time.Duration{30 * time.Second, 800 * time.Millisecond} {
		subtests[lease.String()] = func(t *testing.T) {
			srv := testenv.Redis(t)
			s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
			held := s.take(t, key)
			first := look(t, srv, key).owner
			child := testenv.Child(t, "holder", testenv.Args(srv.Addr(), key, lease.String()))
			eventually(t, "the other process queues", func() bool { return srv.Do(t, "ZCARD", queueOf(key)) == int64(1) })
			child.Pause(t)
			release(t, held)
			before := look(t, srv, key)
			if before.owner == first || before.left > min(granted, lease) {
				t.Errorf("the lock went to %q for %v; the lease is %v", before.owner, before.left, lease)
			}
			child.Kill(t)
			inTime(t, srv, other, key, before)
		}
	}
	abreast(t, subtests)
}

// A copy of a request that arrives when nobody guards against it any more takes the lock for one lease.
func TestCopyThatComesTooLateBlocksForOneLease(t *testing.T) {
	t.Parallel()
	const key, lease = "late", 2 * time.Second
	late := map[string]func(t *testing.T, srv *testenv.Server, proxy *testenv.Proxy){
		"its owner is dead": func(t *testing.T, _ *testenv.Server, proxy *testenv.Proxy) {
			proxy.SwallowRequests(asking(askAcquire))
			child := testenv.Child(t, "holder", testenv.Args(proxy.Addr(), key, lease.String()))
			proxy.AwaitFaults(t, 1)
			child.Kill(t)
		},
		"its owner is not barred any more": func(t *testing.T, srv *testenv.Server, proxy *testenv.Proxy) {
			m, s := watch(t, srv), connect(t, proxy.Addr(), latchkey.OpTimeout(opTimeout), latchkey.RenewedLease(lease))
			proxy.SwallowRequests(asking(askAcquire), testenv.Times(1))
			if _, err := s.Acquire(context.Background(), key); !errors.Is(err, latchkey.ErrStore) {
				t.Fatalf("void: a request is lost and the answer is %v", err)
			}
			var last time.Time
			eventually(t, "nobody takes it back any more", func() bool {
				undone := m.between(0, m.mark(t), leaves)
				if len(undone) > 0 {
					last = undone[len(undone)-1].at
				}
				return !last.IsZero() && time.Since(last) > 2*time.Second
			})
		},
	}
	subtests := make(map[string]func(t *testing.T))
	for name, lose := range late {
		subtests[name] = func(t *testing.T) {
			srv := testenv.Redis(t)
			proxy, other := testenv.NewProxy(t, srv.Addr()), connect(t, srv.Addr())
			lose(t, srv, proxy)
			release(t, other.take(t, key, latchkey.Wait(0)))
			proxy.Replay(t)
			before := look(t, srv, key)
			if before.left > lease {
				t.Errorf("the late copy took the lock for %v; the lease is %v", before.left, lease)
			}
			if _, err := other.Acquire(context.Background(), key); !errors.Is(err, latchkey.ErrBusy) {
				t.Errorf("after a late copy the answer is %v", err)
			}
			inTime(t, srv, other, key, before)
		}
	}
	abreast(t, subtests)
}
