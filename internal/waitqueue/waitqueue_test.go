package waitqueue_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey/internal/waitqueue"
)

const forever = time.Duration(-1)

func TestTurnsAreFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waitqueue.New[int]()
		turn, _ := table.TryEnter("k")
		var order []int
		for i := range 100 {
			go func() {
				turn, baton := table.Enter(t.Context(), "k", forever)
				order = append(order, i)
				turn.Leave(baton + 1)
			}()
			synctest.Wait() // i queues before i+1 comes
		}
		if got := table.Waiting("k"); got != 100 {
			t.Fatalf("%d wait, want 100", got)
		}
		turn.Leave(1)
		synctest.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("turn %d went to caller %d", i, who)
			}
		}
		if len(order) != 100 || table.Keys() != 0 {
			t.Fatalf("%d turns, %d keys left; want 100 and 0", len(order), table.Keys())
		}
	})
}

func TestTheBatonReachesTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waitqueue.New[string]()
		first, baton := table.Enter(t.Context(), "k", forever)
		if baton != "" {
			t.Fatalf("a fresh key has the baton %q", baton)
		}
		first.Show("shown")
		if turn, present := table.TryEnter("k"); turn != nil || present != "shown" {
			t.Fatalf("TryEnter = %v, %q; want nobody's turn and what is shown", turn, present)
		}
		if first.Pass("nobody") {
			t.Fatal("passed the turn to nobody")
		}
		got := make(chan string)
		go func() {
			turn, baton := table.Enter(t.Context(), "k", forever)
			turn.Leave("lost")
			got <- baton
		}()
		synctest.Wait()
		if !first.Pass("passed") {
			t.Fatal("somebody waits, but Pass says no")
		}
		if baton := <-got; baton != "passed" {
			t.Fatalf("baton = %q, want passed", baton)
		}
	})
}

func TestAWaiterWhoGivesUpLeavesItsPlace(t *testing.T) {
	for name, giveUp := range map[string]func() (context.Context, time.Duration){
		"ctx": func() (context.Context, time.Duration) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			return ctx, forever
		},
		"wait": func() (context.Context, time.Duration) { return context.Background(), time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := waitqueue.New[int]()
				first, _ := table.TryEnter("k")
				first.Show(7)
				ctx, wait := giveUp()
				start := time.Now()
				turn, present := table.Enter(ctx, "k", wait)
				if turn != nil || present != 7 || time.Since(start) != time.Second {
					t.Fatalf("turn = %v, %d is shown after %v; want none, and 7, after a second", turn, present, time.Since(start))
				}
				if table.Waiting("k") != 0 {
					t.Fatal("the place is still there")
				}
				first.Leave(0)
				if table.Keys() != 0 {
					t.Fatal("the key is still there")
				}
			})
		})
	}
}

// The turn that is given at the very moment when the wait ends must reach somebody.
func TestNoTurnIsLostWhenItCrossesTheEndOfAWait(t *testing.T) {
	table := waitqueue.New[int]()
	crossed, gaveUp := 0, 0
	for round := range 20_000 {
		first, _ := table.TryEnter("k")
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			turn, _ := table.Enter(ctx, "k", forever)
			if turn == nil {
				gaveUp++
				return
			}
			if ctx.Err() != nil {
				crossed++
			}
			turn.Leave(0)
		})
		for table.Waiting("k") == 0 {
			runtime.Gosched()
		}
		if round%2 == 0 {
			cancel() // the waiter needs a moment to hear it
			first.Leave(0)
		} else {
			first.Leave(0)
			cancel()
		}
		wg.Wait()
		if table.Keys() != 0 {
			t.Fatal("a turn was lost: the key is in use and nobody has it")
		}
	}
	if crossed == 0 {
		t.Fatalf("void: no turn crossed the end of a wait; %d waits ended first", gaveUp)
	}
}

func TestOneAheadPerKeyAndNobodyElse(t *testing.T) {
	table := waitqueue.New[int]()
	race := func(locked bool) (lost int64) {
		var counts [4]atomic.Int64
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 2000 {
					k := (worker + i) % len(counts)
					var turn *waitqueue.Turn[int]
					if locked {
						turn, _ = table.Enter(context.Background(), strconv.Itoa(k), forever)
					}
					n := counts[k].Load()
					runtime.Gosched()
					counts[k].Store(n + 1)
					if locked {
						turn.Leave(0)
					}
				}
			})
		}
		wg.Wait()
		return 8*2000 - counts[0].Load() - counts[1].Load() - counts[2].Load() - counts[3].Load()
	}
	if lost := race(true); lost != 0 {
		t.Errorf("%d updates lost", lost)
	}
	if lost := race(false); lost == 0 {
		t.Error("void: without turns nothing is lost either")
	}
}

func TestKeysUsedOnceLeaveNoMemory(t *testing.T) {
	table := waitqueue.New[int]()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var atOnce uint64
	func() {
		var turns []*waitqueue.Turn[int]
		for i := range 100_000 {
			turn, _ := table.TryEnter("key:" + strconv.Itoa(i))
			turns = append(turns, turn)
		}
		atOnce = heap()
		for _, turn := range turns {
			turn.Leave(0)
		}
	}()
	after := heap()
	if grown := int64(after) - int64(before); grown > int64(atOnce-before)/20 {
		t.Errorf("%d bytes are left of %d", grown, atOnce-before)
	}
	runtime.KeepAlive(table)
}
