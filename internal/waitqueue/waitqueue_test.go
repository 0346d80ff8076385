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
		turn := table.TryEnter("k")
		var order []int
		for i := range 100 {
			go func() {
				turn, _, _ := table.Enter(t.Context(), "k", forever)
				order = append(order, i)
				turn.Leave()
			}()
			synctest.Wait() // i queues before i+1 comes
		}
		if got := table.Waiting("k"); got != 100 {
			t.Fatalf("%d wait, want 100", got)
		}
		turn.Leave()
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
		first, baton, _ := table.Enter(t.Context(), "k", forever)
		if baton != "" {
			t.Fatalf("a fresh key has the baton %q", baton)
		}
		first.Show("shown")
		if turn, present := table.Look(t.Context(), "k", forever); turn != nil || present != "shown" {
			t.Fatalf("Look = %v, %q; want nobody's turn and what is shown", turn, present)
		}
		if first.Pass("nobody") {
			t.Fatal("passed the turn to nobody")
		}
		got := make(chan string)
		go func() {
			turn, baton, _ := table.Enter(t.Context(), "k", forever)
			turn.Leave()
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
				first := table.TryEnter("k")
				first.Show(7)
				ctx, wait := giveUp()
				start := time.Now()
				turn, present, _ := table.Enter(ctx, "k", wait)
				if turn != nil || present != 7 || time.Since(start) != time.Second {
					t.Fatalf("turn = %v, %d is shown after %v; want none, and 7, after a second", turn, present, time.Since(start))
				}
				if table.Waiting("k") != 0 {
					t.Fatal("the place is still there")
				}
				first.Leave()
				if table.Keys() != 0 {
					t.Fatal("the key is still there")
				}
			})
		})
	}
}

// Who only looks wants to know what the one ahead has there, and is told when that one knows.
func TestWhoLooksIsToldWhatThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(first *waitqueue.Turn[string])
		turn    bool
		present string
	}{
		"shown":                {func(first *waitqueue.Turn[string]) { first.Show("held") }, false, "held"},
		"left":                 {(*waitqueue.Turn[string]).Leave, true, ""},
		"shown, then left":     {func(first *waitqueue.Turn[string]) { first.Show("held"); first.Leave() }, false, "held"},
		"everybody sent away":  {func(first *waitqueue.Turn[string]) { first.Dismiss("down") }, false, "down"},
		"nothing in good time": {func(*waitqueue.Turn[string]) { time.Sleep(time.Minute) }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := waitqueue.New[string]()
				first := table.TryEnter("k")
				first.Show("of the one before")
				first.Leave() // nothing is shown any more
				first = table.TryEnter("k")
				waited := make(chan *waitqueue.Turn[string], 1)
				go func() {
					turn, _, _ := table.Enter(t.Context(), "k", time.Hour)
					waited <- turn
				}()
				synctest.Wait()
				type sight struct {
					turn    *waitqueue.Turn[string]
					present string
				}
				saw := make(chan sight, 1)
				go func() {
					turn, present := table.Look(t.Context(), "k", time.Second)
					saw <- sight{turn, present}
				}()
				synctest.Wait()
				if len(saw) > 0 {
					t.Fatal("told before there was anything to tell")
				}
				c.end(first)
				if name == "left" {
					(<-waited).Leave() // it was in line before
				}
				got := <-saw
				if (got.turn != nil) != c.turn || got.present != c.present {
					t.Errorf("turn: %t, present: %q; want %t, %q", got.turn != nil, got.present, c.turn, c.present)
				}
				if c.present == "down" && <-waited != nil {
					t.Error("who waited was not sent away")
				}
			})
		})
	}
}

func TestADismissedKeyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waitqueue.New[string]()
		first := table.TryEnter("k")
		var away atomic.Int64
		for range 100 {
			go func() {
				if turn, baton, _ := table.Enter(t.Context(), "k", forever); turn == nil && baton == "down" {
					away.Add(1)
				}
			}()
		}
		synctest.Wait()
		first.Dismiss("down")
		synctest.Wait()
		if away.Load() != 100 || table.Keys() != 0 {
			t.Errorf("%d of 100 were sent away, %d keys are left", away.Load(), table.Keys())
		}
		if turn := table.TryEnter("k"); turn == nil {
			t.Error("the key is in use")
		}
	})
}

// The turn that is given at the very moment when the wait ends must reach somebody.
func TestNoTurnIsLostWhenItCrossesTheEndOfAWait(t *testing.T) {
	table := waitqueue.New[int]()
	crossed, gaveUp := 0, 0
	for round := range 20_000 {
		first := table.TryEnter("k")
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			turn, _, _ := table.Enter(ctx, "k", forever)
			if turn == nil {
				gaveUp++
				return
			}
			if ctx.Err() != nil {
				crossed++
			}
			turn.Leave()
		})
		for table.Waiting("k") == 0 {
			runtime.Gosched()
		}
		if round%2 == 0 {
			cancel() // the waiter needs a moment to hear it
			first.Leave()
		} else {
			first.Leave()
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
						turn, _, _ = table.Enter(context.Background(), strconv.Itoa(k), forever)
					}
					n := counts[k].Load()
					runtime.Gosched()
					counts[k].Store(n + 1)
					if locked {
						turn.Leave()
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
			turn := table.TryEnter("key:" + strconv.Itoa(i))
			turns = append(turns, turn)
		}
		atOnce = heap()
		for _, turn := range turns {
			turn.Leave()
		}
	}()
	after := heap()
	if grown := int64(after) - int64(before); grown > int64(atOnce-before)/20 {
		t.Errorf("%d bytes are left of %d", grown, atOnce-before)
	}
	runtime.KeepAlive(table)
}
