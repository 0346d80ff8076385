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

// tick is what the server's clock can be off in a TTL, which it counts in whole milliseconds.
const tick = 2 * time.Millisecond

// entry says when a lock was taken, by the server's clock, compared to when the lease of the one before would have ended.
func entry(t *testing.T, srv *testenv.Server, s *service, key string, before sight) time.Duration {
	t.Helper()
	const lease = 20 * time.Second // not renewed before the look
	s.take(t, key, latchkey.RenewedLease(lease))
	now := look(t, srv, key)
	if now.owner == before.owner {
		t.Fatalf("the server still knows the holder before")
	}
	return now.end().Add(-lease).Sub(before.end())
}

func TestKilledHolderBlocksForOneLeaseAndNoLonger(t *testing.T) {
	t.Parallel()
	const lease, key = time.Second, "killed"
	srv := testenv.Redis(t)
	child, s := holdIn(t, srv, key, lease), connect(t, srv.Addr())
	child.Kill(t)
	before := look(t, srv, key)
	if before.owner == "" || before.left <= 0 || before.left > lease {
		t.Fatalf("the killed process has left %+v on the server: nothing to wait for", before)
	}
	late := entry(t, srv, s, key, before)
	t.Logf("the lease had %v to go when its holder was gone; the next one got in %v after its end", before.left, late)
	if late < -tick {
		t.Errorf("the next one got in %v before the lease had ended", -late)
	}
	if late > 5*time.Second {
		t.Errorf("the next one got in only %v after the lease had ended", late)
	}
}

func TestEntryBeforeTheLeaseEndsIsSeen(t *testing.T) {
	t.Parallel()
	const key = "deleted"
	srv := testenv.Redis(t)
	child, s := holdIn(t, srv, key, 30*time.Second), connect(t, srv.Addr())
	child.Kill(t)
	before := look(t, srv, key)
	srv.Do(t, "DEL", full(key))
	if late := entry(t, srv, s, key, before); late > -10*time.Second {
		t.Errorf("the key was deleted, the next one got in at once, and the harness says %v after the lease", late)
	}
}

func TestLivingHolderIsRenewedPastManyLeases(t *testing.T) {
	t.Parallel()
	const lease, leases, key = 500 * time.Millisecond, 5, "living"
	srv := testenv.Redis(t)
	child, s := holdIn(t, srv, key, lease), connect(t, srv.Addr())
	first := look(t, srv, key)
	_, err := s.Acquire(context.Background(), key, latchkey.Wait(leases*lease))
	if !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("somebody waits for the lock of a living holder and gets %v", err)
	}
	last := look(t, srv, key)
	if last.owner != first.owner {
		t.Fatalf("%q held the lock and now %q does", first.owner, last.owner)
	}
	renewed := last.end().Sub(first.end())
	t.Logf("waited for %v, meanwhile the lease moved by %v", last.at.Sub(first.at), renewed)
	if last.at.Sub(first.at) < leases*lease || renewed < (leases-1)*lease {
		t.Errorf("the lease has not come past %d leases: nothing is shown", leases)
	}
	child.Sayf(t, "let go")
	expect(t, child, endedWell)
}
