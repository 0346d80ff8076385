package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// holder is a process that holds locks: one, or many while its only thread for Go code has other things to do.
//
//	args   lease, how many locks, addresses
//	says   "held"
//	hears  "look", and says how many leases are lost by their contexts, and how many renewals there were
//	hears  anything else, and lets go
func holder(self *testenv.Self) {
	length, err := time.ParseDuration(self.Args[0])
	if err != nil {
		self.Failf("%v", err)
	}
	n, err := strconv.Atoi(self.Args[1])
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	var renewals counted
	locks := lock(env, open(env, self.Args[2:]), latchkey.Observe(&renewals))
	leases := make([]*latchkey.Lease, n)
	for i := range leases {
		leases[i], err = locks.Acquire(context.Background(), heldKey(i), latchkey.Wait(limit), latchkey.RenewedLease(length))
		if err != nil {
			self.Failf("%v", err)
		}
	}
	stop := make(chan struct{})
	if n > 1 {
		runtime.GOMAXPROCS(1)
		for range 4 {
			go neverRest(stop)
		}
	}
	self.Sayf("held")
	for {
		if line, _ := self.Hear(); line != "look" {
			break
		}
		lost := 0
		for _, l := range leases {
			if l.Context().Err() != nil && errors.Is(context.Cause(l.Context()), latchkey.ErrLeaseLost) {
				lost++
			}
		}
		self.Sayf("%d lost, %d renewals", lost, renewals.n.Load())
	}
	close(stop)
	for _, l := range leases {
		_ = l.Release(context.Background())
	}
	env.Close()
}

func heldKey(i int) string { return "k" + strconv.Itoa(i) }

// hold has a process hold locks.
func hold(t *testing.T, lease time.Duration, n int, addrs []string) *testenv.ChildProcess {
	t.Helper()
	c := testenv.Child(t, "holder", testenv.Args(append([]string{lease.String(), strconv.Itoa(n)}, addrs...)...))
	return c
}

func heard(t *testing.T, c *testenv.ChildProcess) (lost, renewals int) {
	t.Helper()
	c.Sayf(t, "look")
	line := c.Hear(t)
	if _, err := fmt.Sscanf(line, "%d lost, %d renewals", &lost, &renewals); err != nil {
		t.Fatalf("the child said %q", line)
	}
	return lost, renewals
}

// burner keeps a core busy until it is killed.
func burner(self *testenv.Self) {
	self.Sayf("burning")
	neverRest(nil)
}

func neverRest(stop <-chan struct{}) {
	for n := 0; ; n++ {
		if n%1_000_000 == 0 {
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

// leaseEnd is when a key's lease ends on a server, by its own clock, which is this machine's; zero if nobody has the key.
func leaseEnd(t *testing.T, s *testenv.Server, key string) time.Time {
	t.Helper()
	reply, _ := s.Do(t, "EVAL", `local t = redis.call('TIME')
return redis.call('PTTL', KEYS[1]) .. ' ' .. t[1] .. ' ' .. t[2]`, "1", "latchkey:"+key).(string)
	var left, sec, micro int64
	if _, err := fmt.Sscan(reply, &left, &sec, &micro); err != nil {
		t.Fatalf("the server answered %q", reply)
	}
	if left < 0 {
		return time.Time{}
	}
	return time.Unix(sec, micro*1000).Add(time.Duration(left) * time.Millisecond)
}

// majorityEnd is when the second of three leases ends, the third of five: then a majority can be had by somebody else.
func majorityEnd(t *testing.T, servers []*testenv.Server, key string) time.Time {
	t.Helper()
	ends := make([]time.Time, 0, len(servers))
	for _, s := range servers {
		ends = append(ends, leaseEnd(t, s, key))
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[len(ends)/2]
}

// inTime checks that somebody gets in when a majority of leases has ended, and not earlier.
func inTime(t *testing.T, locks *latchkey.Locks, key string, end time.Time) {
	t.Helper()
	if end.IsZero() {
		t.Fatal("void: nobody holds the key")
	}
	lease := take(t, locks, key)
	late := time.Since(end)
	t.Logf("the next one got in %v after the lease", late)
	// Servers count milliseconds.
	if late < -2*time.Millisecond || late > 5*time.Second {
		t.Errorf("the next one got in %v after the lease had ended", late)
	}
	release(t, lease)
}

// free waits until nobody has a key. A place in a queue may outlive it: it goes away by itself.
func free(t *testing.T, servers []*testenv.Server, key string) {
	t.Helper()
	for i, s := range servers {
		eventually(t, fmt.Sprintf("%s is free on master %d", key, i), func() bool { return s.Do(t, "GET", "latchkey:"+key) == nil })
	}
}

func TestAKilledHolderBlocksForOneLease(t *testing.T) {
	t.Parallel()
	servers := masters(t, 3)
	child, next := hold(t, time.Second, 1, addrs(servers)), lock(t, open(t, addrs(servers)))
	child.Hear(t)
	child.Kill(t)
	inTime(t, next, heldKey(0), majorityEnd(t, servers, heldKey(0)))
	free(t, servers, heldKey(0))
}

func TestAHolderStoppedPastItsLeaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	servers := masters(t, 3)
	child, next := hold(t, time.Second, 1, addrs(servers)), lock(t, open(t, addrs(servers)))
	child.Hear(t)
	if lost, _ := heard(t, child); lost > 0 { // the control
		t.Fatal("the lease is lost before anything has happened")
	}
	child.Pause(t)
	lease := take(t, next, heldKey(0)) // the dangerous moment: two processes believe they have it
	child.Sayf(t, "look")
	child.Resume(t)
	if line := child.Hear(t); line[:1] != "1" {
		t.Errorf("after the pause the child says %q", line)
	}
	child.Sayf(t, "return")
	child.Wait()
	if end := majorityEnd(t, servers, heldKey(0)); end.IsZero() {
		t.Error("the stopped holder has let go of the lock of the one who came after it")
	}
	release(t, lease)
}

func TestNoLeaseOfAQuorumIsLostWhenTheProcessorIsStarved(t *testing.T) {
	t.Parallel()
	const leases, lease, renewed = 20, 3 * time.Second, 6
	servers := masters(t, 3)
	for range runtime.NumCPU() {
		testenv.Child(t, "burner").Hear(t)
	}
	child := hold(t, lease, leases, addrs(servers))
	child.Hear(t)
	for {
		lost, renewals := heard(t, child)
		if lost > 0 {
			t.Fatalf("%d of %d leases were lost", lost, leases)
		}
		if renewals >= renewed*leases {
			t.Logf("%d renewals, no lease lost", renewals)
			break
		}
		<-time.After(lease / 10)
	}
	child.Sayf(t, "return")
	child.Wait()
	nothingLeft(t, servers)
}
