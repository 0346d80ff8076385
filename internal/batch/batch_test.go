package batch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey/internal/batch"
)

func TestItemsThatComeWhileTripsAreUnderWayShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		seen := make(map[int]int)
		b := batch.New(func(items []int) {
			mu.Lock()
			sizes = append(sizes, len(items))
			for _, i := range items {
				seen[i]++
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}, func(int) {}, time.Second)
		for i := range 1200 {
			b.Add(i)
			if i < 2 {
				synctest.Wait() // the first two leave alone
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(seen) != 1200 {
			t.Errorf("%d items travelled, want 1200", len(seen))
		}
		for i, n := range seen {
			if n != 1 {
				t.Errorf("item %d travelled %d times", i, n)
			}
		}
		if sizes[0] != 1 || sizes[1] != 1 || len(sizes) > 6 {
			t.Errorf("trips of %v items; want two alone and the rest in a few", sizes)
		}
	})
}

func TestAStuckTripDoesNotKeepTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		done := make(chan int, 10)
		b := batch.New(func(items []int) {
			for _, i := range items {
				if i < 2 {
					<-release
				}
				done <- i
			}
		}, func(int) {}, time.Second)
		b.Add(0)
		synctest.Wait()
		b.Add(1)
		synctest.Wait()
		b.Add(2) // both lanes are stuck
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("void: the lanes are not stuck")
		}
		b.Add(3)
		time.Sleep(time.Second + 10*time.Millisecond) // nobody comes any more
		synctest.Wait()
		if len(done) != 2 {
			t.Errorf("%d items got through; want those that came behind the stuck ones", len(done))
		}
		time.Sleep(2 * time.Second)
		b.Add(4)
		synctest.Wait()
		if len(done) != 3 {
			t.Errorf("%d items got through; want one more", len(done))
		}
		close(release)
		time.Sleep(time.Second) // until the carriers have ended
	})
}

func TestItemsAreLookedAtWhileTheyWaitAndTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		looks := make(map[int]int)
		b := batch.New(func([]int) { <-release }, func(i int) {
			mu.Lock()
			defer mu.Unlock()
			looks[i]++
		}, time.Hour)
		for i := range 5 {
			b.Add(i)
			synctest.Wait() // two travel, the others wait
		}
		time.Sleep(100 * time.Millisecond)
		close(release)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for i := range 5 {
			if n := looks[i]; n < 15 || n > 25 {
				t.Errorf("%d looks at item %d in 100 ms, want one each 5 ms", n, i)
			}
		}
	})
}
