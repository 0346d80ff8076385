//go:build unix

package itest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// growing returns what is wrong with the tokens of successive holders.
func growing(tokens []int64) error {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			return fmt.Errorf("token %d follows %d", tokens[i], tokens[i-1])
		}
	}
	return nil
}

func token(t *testing.T, lease *latchkey.Lease) int64 {
	t.Helper()
	n, err := lease.Token(context.Background())
	if err != nil {
		t.Fatalf("Token: %v", err)
	}
	return n
}

func TestTokensGrowFromHolderToHolder(t *testing.T) {
	const key, processes, callers, turns = "grown", 3, 8, 20
	for _, how := range []string{"minted with the lock", "minted on demand", "one way or the other"} {
		t.Run(how, func(t *testing.T) {
			srv := testenv.Redis(t)
			var all sync.WaitGroup
			var tokens []int64 // guarded by the lock itself
			var services []*service
			for range processes {
				s := connect(t, srv.Addr(), latchkey.Wait(patience))
				services = append(services, s)
				for i := range callers {
					var opts []latchkey.HoldOption
					if how == "minted with the lock" || how == "one way or the other" && i%2 == 0 {
						opts = append(opts, latchkey.MintToken())
					}
					all.Go(func() {
						for range turns {
							lease, err := s.Acquire(context.Background(), key, opts...)
							if err != nil {
								t.Error(err)
								return
							}
							n, err := lease.Token(context.Background())
							if err != nil {
								t.Error(err)
							}
							tokens = append(tokens, n)
							if err := lease.Release(context.Background()); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			if len(tokens) != processes*callers*turns {
				t.Fatalf("%d tokens for %d holders", len(tokens), processes*callers*turns)
			}
			if err := growing(tokens); err != nil {
				t.Error(err)
			}
			inside, between := 0, 0
			for _, s := range services {
				inside += s.events.count(latchkey.EventHandedOver)
				between += s.events.count(latchkey.EventAcquired)
			}
			t.Logf("%d holders, %d after another one of their process", len(tokens), inside)
			// A token that was minted on demand stands for its holder alone.
			if between <= processes || how == "minted with the lock" && inside < len(tokens)/2 {
				t.Errorf("%d hand-overs inside a process, %d between: nothing is shown", inside, between)
			}
			ttl := number(t, srv.Do(t, "PTTL", counterOf(key)))
			if ttl <= 0 || ttl > time.Hour.Milliseconds()+1000 {
				t.Errorf("the counter lives for %d ms: it is to go away by itself", ttl)
			}
		})
	}
}

func TestTokensGrowAcrossARestartWithoutData(t *testing.T) {
	t.Parallel()
	const key = "restarted"
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	var tokens, naive []int64
	for range 3 {
		for range 3 {
			lease := s.take(t, key, latchkey.MintToken())
			tokens = append(tokens, token(t, lease))
			release(t, lease)
			naive = append(naive, number(t, srv.Do(t, "INCR", "a counter of its own")))
		}
		srv.Restart(t, testenv.LoseData)
	}
	if err := growing(tokens); err != nil {
		t.Error(err)
	}
	if growing(naive) == nil {
		t.Errorf("control: a plain counter kept growing: %v", naive)
	}
}

func TestTokensAreExactWhereAFloatIsNot(t *testing.T) {
	t.Parallel()
	const key, holders = "large", 20
	for _, last := range []int64{1<<53 - 3, 1 << 53, 1<<53 + 1, 1<<60 + 7} {
		t.Run(strconv.FormatInt(last, 10), func(t *testing.T) {
			srv := testenv.Redis(t)
			s := connect(t, srv.Addr())
			srv.Do(t, "SET", counterOf(key), strconv.FormatInt(last, 10))
			for i := range int64(holders) {
				lease := s.take(t, key)
				if n := token(t, lease); n != last+1+i {
					t.Fatalf("token %d after %d: got %d", last+1+i, last+i, n)
				}
				release(t, lease)
			}
			// With the acquire: a block, of which this holder has the first.
			lease := s.take(t, key, latchkey.MintToken())
			if n := token(t, lease); n != last+1+holders {
				t.Errorf("minted with the lock: %d after %d", n, last+holders)
			}
			block := number(t, srv.Do(t, "GET", counterOf(key))) - token(t, lease) + 1
			release(t, lease)
			if n := token(t, s.take(t, key)); n != last+1+holders+block {
				t.Errorf("token %d after a block of %d that began at %d", n, block, last+1+holders)
			}
		})
	}
	// Control: this is what a script that counts by itself does.
	srv := testenv.Redis(t)
	reply := srv.Do(t, "EVAL", "return tostring(9007199254740992 + 1)", "0")
	if text := fmt.Sprint(reply); text == "9007199254740993" {
		t.Error("control: the server's numbers are exact")
	}
}

func TestCounterAheadOfTheClockIsFollowed(t *testing.T) {
	t.Parallel()
	const key = "ahead"
	srv := testenv.Redis(t)
	s := connect(t, srv.Addr())
	ahead := time.Now().Add(30 * 24 * time.Hour).UnixMicro()
	srv.Do(t, "SET", counterOf(key), strconv.FormatInt(ahead, 10))
	lease := s.take(t, key)
	if n := token(t, lease); n != ahead+1 {
		t.Errorf("the counter is at %d, ahead of the clock, and the next token is %d", ahead, n)
	}
	release(t, lease)
	// It must be kept for as long as it is ahead.
	if ttl := number(t, srv.Do(t, "PTTL", counterOf(key))); ttl < (30 * 24 * time.Hour).Milliseconds() {
		t.Errorf("the counter is a month ahead of the clock and lives for %d ms", ttl)
	}
	// A counter that is behind, as after a failover, gives way to the clock.
	srv.Do(t, "SET", counterOf(key), "17")
	clock := look(t, srv, key).at.UnixMicro()
	if n := token(t, s.take(t, key)); n < clock {
		t.Errorf("token %d is below the clock, which said %d", n, clock)
	}
}

func TestLeaseThatIsGoneMintsNoToken(t *testing.T) {
	t.Parallel()
	const key = "gone"
	srv := testenv.Redis(t)
	s, other := connect(t, srv.Addr()), connect(t, srv.Addr())
	held := s.take(t, key)
	srv.Do(t, "DEL", full(key))
	next := other.take(t, key)
	if n, err := held.Token(context.Background()); err == nil {
		t.Errorf("somebody else holds the key, and the old holder minted %d", n)
	}
	if held.Context().Err() == nil {
		t.Error("the old holder knows that it has lost the lock and its context does not")
	}
	token(t, next)
	release(t, next)
}
