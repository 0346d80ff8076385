//go:build unix

package itest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// failoverLease is longer than a failover takes, and its renewals come soon after one.
const failoverLease = 15 * time.Second

// sentinelled is a process of an application whose Redis is watched by a sentinel.
func sentinelled(t testenv.TB, w *testenv.Watched) *service {
	t.Helper()
	return connectOver(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: w.Name(), SentinelAddrs: []string{w.SentinelAddr()},
	}), plain, latchkey.OpTimeout(failoverLease))
}

func TestALockSurvivesAFailoverToAReplicaThatHasIt(t *testing.T) {
	t.Parallel()
	w := testenv.Sentinel(t)
	survivesFailover(t, sentinelled(t, w), sentinelled(t, w), w.Master, w.Replica, func() { w.AwaitMaster(t, w.Replica) })
}

// survivesFailover kills the master while one process holds the lock k and another waits for it.
func survivesFailover(t *testing.T, s, other *service, master, replica *testenv.Server, replaced func()) {
	t.Helper()
	lease := s.take(t, "k", latchkey.RenewedLease(failoverLease))
	token, err := lease.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *latchkey.Lease, 1)
	go func() {
		l, err := other.Acquire(context.Background(), "k", latchkey.Wait(patience), latchkey.RenewedLease(failoverLease))
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	other.events.await(t, latchkey.EventWaiting, 1)
	if n := master.Do(t, "EXISTS", full("k"), queueOf("k")); n != int64(2) {
		t.Fatalf("void: lock and queue are %v keys", n)
	}
	offset := number(t, master.Info(t, "replication")["master_repl_offset"])
	eventually(t, "the replica knows the lock and the queue", func() bool {
		return number(t, replica.Info(t, "replication")["slave_repl_offset"]) >= offset
	})

	master.Kill(t)
	replaced()
	before := replica.Do(t, "PEXPIRETIME", full("k"))
	eventually(t, "the lease is renewed at the new master", func() bool {
		return lease.Context().Err() != nil || number(t, replica.Do(t, "PEXPIRETIME", full("k"))) > number(t, before)
	})
	if err := lease.Context().Err(); err != nil {
		t.Fatalf("the lease was lost: %v", context.Cause(lease.Context()))
	}
	select {
	case <-next:
		t.Fatal("somebody else got in while the lock was held")
	default:
	}
	release(t, lease)
	l := hear(t, "the waiter gets in", next)
	if l == nil {
		t.FailNow()
	}
	later, err := l.Token(t.Context())
	if err != nil || later <= token {
		t.Errorf("the next holder's token is %d, %v; the first one's was %d", later, err, token)
	}
	release(t, l)
	if n := replica.Do(t, "EXISTS", full("k"), queueOf("k")); n != int64(0) {
		t.Errorf("%v keys are left", n)
	}
}

// The replica that becomes the master had not heard of the lock: somebody else gets in, the one who had it is told at the
// next renewal, and its token is the smaller one.
func TestFailoverToAReplicaThatHasNotHeardOfTheLockIsNoticed(t *testing.T) {
	t.Parallel()
	w := testenv.Sentinel(t)
	s, other := sentinelled(t, w), sentinelled(t, w)
	w.Replica.Pause(t)
	w.Master.Do(t, "CLIENT", "KILL", "TYPE", "replica") // or it would find what it missed in its buffers
	lease := s.take(t, "k", latchkey.RenewedLease(failoverLease))
	token, err := lease.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Master.Kill(t)
	w.Replica.Resume(t)
	w.AwaitMaster(t, w.Replica)
	second := other.take(t, "k", latchkey.RenewedLease(failoverLease))
	// The dangerous moment: two have it, and only their tokens tell which is the later one.
	later, err := second.Token(t.Context())
	if err != nil || later <= token {
		t.Errorf("the second holder's token is %d, %v; the first one's was %d", later, err, token)
	}
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
		t.Errorf("the first holder's context ended because of %v", cause)
	}
	if second.Context().Err() != nil {
		t.Error("the second holder has lost it too")
	}
	if err := lease.Release(context.Background()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("the first holder's release says %v", err)
	}
	if second.Context().Err() != nil || other.Held(second.Context(), "k") == false {
		t.Error("the release of the first holder has taken it from the second")
	}
	release(t, second)
}
