package quorumstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
)

// Two of three masters stand still: nothing renews the lease, and its holder hears of the end before anybody else can get in.
func TestALeaseThatAMajorityDoesNotRenewIsLostBeforeItEnds(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	servers := masters(t, 3)
	locks := lock(t, open(t, addrs(servers)))
	held := take(t, locks, "k", latchkey.RenewedLease(lease))
	end := majorityEnd(t, servers, "k")
	for _, s := range servers[:2] {
		s.Pause(t)
	}
	var last time.Time
	ctx := held.Context()
	// The clock is read before the question: at that moment at least it was held.
	for now := time.Now(); ctx.Err() == nil; now = time.Now() {
		last = now
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Microsecond):
		}
	}
	t.Logf("held until %v before the end", end.Sub(last))
	if !last.Before(end.Add(-2 * time.Millisecond)) {
		t.Errorf("the holder believed in its lease for %v too long", last.Sub(end))
	}
	if end.Sub(last) > lease/2 {
		t.Errorf("the lease was given up %v before its end", end.Sub(last))
	}
	for _, s := range servers[:2] {
		s.Resume(t)
	}
	if err := held.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("release: %v", err)
	}
	release(t, take(t, lock(t, open(t, addrs(servers))), "k"))
	free(t, servers, "k")
}
