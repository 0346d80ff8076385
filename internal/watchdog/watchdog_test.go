package watchdog_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// kennel is a dog and what it was told to do.
type kennel struct {
	*watchdog.Dog

	mu      sync.Mutex
	batches [][]*watchdog.Item
	expired map[*watchdog.Item]time.Time
	answer  func(d *watchdog.Dog, it *watchdog.Item, sent watchdog.Reading)
}

func newKennel() *kennel {
	k := &kennel{expired: make(map[*watchdog.Item]time.Time)}
	k.answer = func(d *watchdog.Dog, it *watchdog.Item, sent watchdog.Reading) { d.Extend(it, sent) }
	k.Dog = watchdog.New(func(items []*watchdog.Item) {
		sent := watchdog.Now()
		k.mu.Lock()
		k.batches = append(k.batches, items)
		k.mu.Unlock()
		for _, it := range items {
			k.answer(k.Dog, it, sent)
		}
	}, func(it *watchdog.Item) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.expired[it] = time.Now()
	})
	return k
}

func (k *kennel) add(lease time.Duration) *watchdog.Item {
	it := &watchdog.Item{Lease: lease}
	k.Add(it, watchdog.Now())
	return it
}

func TestAThousandLeasesShareOneBatchPerThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		for range 1000 {
			k.add(30 * time.Second)
			time.Sleep(time.Millisecond) // of the bubble's clock: they come at different times
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if n := len(k.batches); n < 5 || n > 8 {
			t.Errorf("%d batches in a minute, want about six", n)
		}
		for i, b := range k.batches[1:] {
			if len(b) != 1000 {
				t.Errorf("batch %d renews %d of 1000", i+1, len(b))
			}
		}
		if len(k.expired) != 0 {
			t.Errorf("%d leases expired", len(k.expired))
		}
	})
}

func TestARenewalThatFailsIsRepeatedUntilTheDeadline(t *testing.T) {
	for name, answer := range map[string]func(*watchdog.Dog, *watchdog.Item, watchdog.Reading){
		"error": func(d *watchdog.Dog, it *watchdog.Item, _ watchdog.Reading) { d.Retry(it) },
		"hangs": func(*watchdog.Dog, *watchdog.Item, watchdog.Reading) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKennel()
				k.answer = answer
				start := time.Now()
				it := k.add(3 * time.Second)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				at, lost := k.expired[it]
				if !lost {
					t.Fatal("the lease was not lost")
				}
				if after := at.Sub(start); after > 3*time.Second || after < 2900*time.Millisecond {
					t.Errorf("lost after %v; want just before the store's 3 s", after)
				}
				if name == "error" && len(k.batches) < 10 {
					t.Errorf("only %d tries", len(k.batches))
				}
				if k.Watched() != 0 {
					t.Error("an expired lease is still watched")
				}
			})
		})
	}
}

func TestAHangingRenewalDelaysNoOtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		hung := &watchdog.Item{Lease: 300 * time.Millisecond}
		k.answer = func(d *watchdog.Dog, it *watchdog.Item, sent watchdog.Reading) {
			if it == hung {
				time.Sleep(time.Hour)
			}
			d.Extend(it, sent)
		}
		k.Add(hung, watchdog.Now())
		time.Sleep(150 * time.Millisecond) // the renewal of the first hangs now
		good := k.add(300 * time.Millisecond)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if _, lost := k.expired[good]; lost {
			t.Error("a lease was lost because another one's renewal hung")
		}
		if _, lost := k.expired[hung]; !lost {
			t.Error("the hung lease was not lost")
		}
		k.Remove(good)
		time.Sleep(2 * time.Hour)
	})
}

func TestFixedLeasesEndAndAreNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		start := time.Now()
		it := &watchdog.Item{Lease: time.Second, Fixed: true}
		k.Add(it, watchdog.Now())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(k.batches) != 0 {
			t.Error("a fixed lease was renewed")
		}
		if at := k.expired[it].Sub(start); at < 900*time.Millisecond || at > time.Second {
			t.Errorf("ended after %v, want just before 1 s", at)
		}
	})
}

func TestRemovedLeasesAreNeitherRenewedNorLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		it := k.add(time.Second)
		if !k.Remove(it) || k.Remove(it) {
			t.Fatal("Remove must report a watched item once")
		}
		k.Extend(it, watchdog.Now()) // the late answer of a renewal
		k.Retry(it)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(k.batches) != 0 || len(k.expired) != 0 {
			t.Errorf("%d renewals, %d losses of a lease that was given back", len(k.batches), len(k.expired))
		}
	})
}

func TestRenewAllDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		for range 10 {
			k.add(time.Hour)
		}
		k.RenewAll()
		synctest.Wait()
		if len(k.batches) != 1 || len(k.batches[0]) != 10 {
			t.Errorf("batches: %d; want one with all ten", len(k.batches))
		}
	})
}

// The connection broke while a renewal was under way: its answer is from before, and says nothing about what came after.
func TestRenewAllRenewsOnceMoreWhatIsBeingRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKennel()
		answered := make(chan struct{})
		k.answer = func(d *watchdog.Dog, it *watchdog.Item, sent watchdog.Reading) {
			<-answered
			d.Extend(it, sent)
		}
		k.add(time.Hour)
		time.Sleep(20 * time.Minute) // a third
		synctest.Wait()
		k.RenewAll()
		close(answered)
		synctest.Wait()
		if len(k.batches) != 2 {
			t.Errorf("%d renewals; want the one that was under way and another one at once", len(k.batches))
		}
	})
}

func TestDeadlineTakesTheLessFavourableClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d watchdog.Deadline
		now := watchdog.Now()
		if !d.Passed(now) {
			t.Error("the zero deadline has not passed")
		}
		d.Set(now.Add(time.Second))
		for ahead, passed := range map[time.Duration]bool{0: false, time.Second - 1: false, time.Second: true} {
			if got := d.Passed(now.Add(ahead)); got != passed {
				t.Errorf("passed after %v: %v", ahead, got)
			}
		}
		slept := now.WallAhead(2 * time.Second) // a machine that slept: only the wall clock went on
		if !d.Passed(slept) || slept.Sub(now) != 2*time.Second {
			t.Error("a machine that slept past the deadline believes that it still holds the lease")
		}
	})
}

func ExampleEnd() {
	sent := watchdog.Now()
	fmt.Println(watchdog.End(sent, 30*time.Second).Sub(sent))
	// Output: 29.7s
}
