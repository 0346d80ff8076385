//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// One master of a cluster stood still, and whatever shared a pipeline with what was asked of it got no answer either: leases
// on healthy masters were lost and locks there could not be had.
func TestAHungMasterOfAClusterCostsOnlyItsOwnLocks(t *testing.T) {
	t.Parallel()
	const lease, opTimeout = 2 * time.Second, time.Second
	c := testenv.Cluster(t, 3, false, testenv.Config("cluster-node-timeout", "60000")) // nobody takes its place
	s := connectOver(t, clusterClient(c), plain, latchkey.OpTimeout(opTimeout))

	// keys are some keys of each master, by the master's place.
	keys := make([][]string, 3)
	for i := 0; len(keys[0]) < 3 || len(keys[1]) < 3 || len(keys[2]) < 3; i++ {
		key := fmt.Sprintf("k%d", i)
		_, place := c.Owner(t, c.Slot(t, full(key)))
		keys[place] = append(keys[place], key)
	}
	hung := s.take(t, keys[0][0], latchkey.RenewedLease(lease))
	var well []*latchkey.Lease
	for _, place := range []int{1, 2} {
		well = append(well, s.take(t, keys[place][0], latchkey.RenewedLease(lease)))
	}

	c.Masters[0].Pause(t)
	// Callers keep asking for locks on all masters while the hung one costs its own lease.
	var failed, had atomic.Int64
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			answers := make(chan error, 2)
			for _, place := range []int{0, 1} {
				go func() {
					l, err := s.Acquire(context.Background(), keys[place][1], latchkey.RenewedLease(lease))
					if err == nil {
						err = l.Release(context.Background())
					}
					if place == 0 {
						if errors.Is(err, latchkey.ErrStore) {
							failed.Add(1)
						}
						err = nil
					} else if err == nil {
						had.Add(1)
					}
					answers <- err
				}()
			}
			for range 2 {
				if err := <-answers; err != nil {
					t.Errorf("a lock on a healthy master: %v", err)
				}
			}
		}
	}()
	<-hung.Context().Done()
	renewed := s.events.count(latchkey.EventRenewed)
	s.events.await(t, latchkey.EventRenewed, renewed+4)
	close(stop)
	<-done
	if cause := context.Cause(hung.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
		t.Errorf("the lease on the hung master ended because of %v", cause)
	}
	if failed.Load() == 0 {
		t.Error("void: the hung master answered")
	}
	if had.Load() == 0 {
		t.Error("no lock was had on the healthy master")
	}
	for i, l := range well {
		if l.Context().Err() != nil {
			t.Errorf("the lease on healthy master %d was lost: %v", i+1, context.Cause(l.Context()))
		}
		release(t, l)
	}
	c.Masters[0].Resume(t)
	for _, m := range c.Masters {
		nothingLeft(t, m)
	}
}
