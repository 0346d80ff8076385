//go:build unix

package itest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

const (
	starvedLeases = 100
	starvedLease  = 2 * time.Second
	starvedFor    = 20 * time.Second
)

// starved is a process with one thread for Go code that holds many leases while goroutines of its own never rest.
//
//	args  address, "" for locks in its own memory
//	says  "held", and after a while how many leases were lost and how many renewals there were
func starved(self *testenv.Self) {
	runtime.GOMAXPROCS(1)
	env := testenv.Program()
	heard := newEvents()
	locks := latchkey.New(memstore.New(), latchkey.Observe(heard))
	if addr := self.Args[0]; addr != "" {
		s := connect(env, addr)
		locks, heard = s.Locks, s.events
	}
	leases := make([]*latchkey.Lease, starvedLeases)
	for i := range leases {
		lease, err := locks.Acquire(context.Background(), fmt.Sprint("starved ", i), latchkey.RenewedLease(starvedLease))
		if err != nil {
			self.Failf("%v", err)
		}
		leases[i] = lease
	}
	self.Sayf("held")
	stop := make(chan struct{})
	for range 4 {
		go neverRest(stop)
	}
	<-time.After(starvedFor)
	lost := 0
	for _, lease := range leases {
		if lease.Context().Err() != nil {
			lost++
		}
	}
	close(stop)
	self.Sayf("%d lost, %d renewals", lost, heard.count(latchkey.EventRenewed))
	for _, lease := range leases {
		_ = lease.Release(context.Background())
	}
	env.Close()
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

// burner keeps a core busy until it is killed.
func burner(self *testenv.Self) {
	self.Sayf("burning")
	neverRest(nil)
}

func TestNoLeaseIsLostWhenTheProcessorIsStarved(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	for range runtime.NumCPU() {
		expect(t, testenv.Child(t, "burner"), "burning")
	}
	subtests := make(map[string]func(t *testing.T))
	for name, addr := range map[string]string{"redisstore": srv.Addr(), "memstore": ""} {
		subtests[name] = func(t *testing.T) {
			child := testenv.Child(t, "starved", testenv.Args(addr))
			expect(t, child, "held")
			var lost, renewals int
			line := child.Hear(t)
			if _, err := fmt.Sscanf(line, "%d lost, %d renewals", &lost, &renewals); err != nil {
				t.Fatalf("the child said %q", line)
			}
			t.Log(line)
			if lost > 0 {
				t.Errorf("%d of %d leases were lost", lost, starvedLeases)
			}
			if least := starvedLeases * int(starvedFor/starvedLease); renewals < least {
				t.Errorf("void: %d renewals, fewer than the %d that leases of %v need in %v", renewals, least, starvedLease, starvedFor)
			}
			child.Wait()
			nothingLeft(t, srv)
		}
	}
	abreast(t, subtests)
}
