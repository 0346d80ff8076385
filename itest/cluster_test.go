//go:build unix

package itest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// clustered is a process of an application whose Redis is a cluster.
func clustered(t testenv.TB, c *testenv.Nodes) *service {
	t.Helper()
	return connectOver(t, clusterClient(c), plain, latchkey.OpTimeout(failoverLease)) // a waiter that finds the store down waits that long
}

func clusterClient(c *testenv.Nodes) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
}

// A lock's slot is moved from node to node, with the lock, its queue and whatever else there is, while two processes
// contend for it: no update is lost, no call fails, no lease is lost.
func TestUpdatesAreNotLostWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	const key, goroutines, moves = "counter", 4, 30
	c := testenv.Cluster(t, 3, false)
	slot := c.Slot(t, full(key))
	for name, guarded := range map[string]bool{"locked": true, "control: no lock": false} {
		t.Run(name, func(t *testing.T) {
			var number, writes, carried atomic.Int64
			stop := make(chan struct{})
			turn := func(context.Context) error {
				n := number.Load()
				runtime.Gosched()
				<-time.After(100 * time.Microsecond) // other processes get to run
				number.Store(n + 1)
				writes.Add(1)
				return nil
			}
			var all sync.WaitGroup
			for range 2 {
				s := clustered(t, c)
				call := turn
				if guarded {
					call = latchkey.Action0(s.WithLock(key, latchkey.WaitForever(), latchkey.RenewedLease(3*time.Second)), turn)
				}
				for range goroutines {
					all.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							if err := call(context.Background()); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			for range moves {
				_, at := c.Owner(t, slot)
				carried.Add(int64(c.Move(t, slot, (at+1)%3)))
			}
			close(stop)
			all.Wait()
			lost := writes.Load() - number.Load()
			t.Logf("%d writes, %d lost; the slot moved %d times and took %d keys along", writes.Load(), lost, moves, carried.Load())
			switch {
			case !guarded && lost == 0:
				t.Error("no update was lost: the harness can't tell a lock from none")
			case guarded && lost != 0:
				t.Errorf("%d updates were lost", lost)
			case guarded && carried.Load() < moves/2:
				t.Errorf("only %d keys moved with the slot: void", carried.Load())
			}
		})
	}
	for _, m := range c.Masters {
		nothingLeft(t, m)
	}
}

// One lock on several keys that are in slots of different nodes: all or none, and no CROSSSLOT.
func TestAListIsLockedAcrossSlots(t *testing.T) {
	t.Parallel()
	c := testenv.Cluster(t, 3, false)
	s, other := clustered(t, c), clustered(t, c)
	items := []string{"a", "b", "c", "d"}
	nodes := make(map[*testenv.Server]bool)
	for _, item := range items {
		owner, _ := c.Owner(t, c.Slot(t, full("item:"+item)))
		nodes[owner] = true
	}
	if len(nodes) < 2 {
		t.Fatal("void: one node has all the keys")
	}
	count := func() (keys []string) {
		for _, m := range c.Masters {
			keys = append(keys, m.Keys(t)...)
		}
		slices.Sort(keys)
		return keys
	}
	call := latchkey.Func(s.WithLock("item:#{param}"), func(context.Context, []string) ([]string, error) {
		return count(), nil
	})
	during, err := call(context.Background(), items)
	if err != nil || !slices.Equal(during, fullItems(items...)) {
		t.Errorf("under the lock of %v the cluster has %v: %v", items, during, err)
	}
	for _, taken := range items {
		held := other.take(t, "item:"+taken)
		during, err := call(context.Background(), items)
		if during != nil {
			t.Errorf("%s is taken, and the function ran", taken)
		}
		busy(t, "item:"+taken, err)
		eventually(t, "nothing but what is taken is left", func() bool { return slices.Equal(count(), fullItems(taken)) })
		release(t, held)
	}
}

// A master dies and its replica, which knows the lock, takes its place: the holder keeps the lock and the waiter waits for
// it, then gets in.
func TestALockSurvivesAFailoverInACluster(t *testing.T) {
	t.Parallel()
	c := testenv.Cluster(t, 3, true)
	owner, place := c.Owner(t, c.Slot(t, full("k")))
	survivesFailover(t, clustered(t, c), clustered(t, c), owner, c.Replicas[place], func() { c.AwaitReplaced(t, place) })
}
