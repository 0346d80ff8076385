package quorumstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// Any majority that is alive knows the last token, so that tokens grow though the masters take turns in being away.
func TestTokensGrowThoughMastersComeAndGo(t *testing.T) {
	servers := masters(t, 5)
	// Far ahead of every clock: what makes the next token larger is what was written, not the time. Above 2^53, where
	// floating-point numbers skip some.
	const far = int64(1)<<60 + 1
	for _, s := range servers[1:4] {
		s.Do(t, "SET", "{latchkey:k}:t", "1152921504606846977")
	}
	// The control: one who asks a single master, as it would be without a majority, gets an old number from some.
	stale := 0
	for _, s := range servers {
		if s.Do(t, "GET", "{latchkey:k}:t") == nil {
			stale++
		}
	}
	if stale != 2 {
		t.Fatalf("void: %d masters do not know the last token, want two", stale)
	}
	locks := lock(t, open(t, addrs(servers)))
	last := far
	for i := range 10 {
		away := []*testenv.Server{servers[i%5], servers[(i+2)%5]}
		for _, s := range away {
			s.Pause(t)
		}
		opts := []latchkey.HoldOption{latchkey.RenewedLease(time.Minute)}
		if i%2 == 0 {
			opts = append(opts, latchkey.MintToken())
		}
		lease := take(t, locks, "k", opts...)
		token, err := lease.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		if i == 0 && token != far+1 {
			t.Errorf("the first token is %d, want %d exactly", token, far+1)
		}
		last = token
		release(t, lease)
		for _, s := range away {
			s.Resume(t)
		}
	}
}

// The same owner mints in two places at once: no token is given out twice.
func TestTokensOfOneOwnerAreNotGivenOutTwice(t *testing.T) {
	servers := masters(t, 3)
	a, b := open(t, addrs(servers)), open(t, addrs(servers))
	if op := do(a, latchkey.Op{Kind: latchkey.OpAcquire, Key: name, Owner: "lk:A", Lease: time.Minute}); !op.OK {
		t.Fatal(op.Err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := make(map[int64]bool)
	for i := range 8 {
		store := []latchkey.Store{a, b}[i%2]
		all.Go(func() {
			for range 10 {
				op := do(store, latchkey.Op{Kind: latchkey.OpToken, Key: name, Owner: "lk:A", Tokens: 3})
				if !op.OK {
					t.Errorf("OK = %t, %v", op.OK, op.Err)
					return
				}
				mu.Lock()
				for n := range int64(3) {
					if seen[op.Token+n] {
						t.Errorf("token %d was given out twice", op.Token+n)
					}
					seen[op.Token+n] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestATokenNeedsAMajority(t *testing.T) {
	servers := masters(t, 3)
	locks := lock(t, open(t, addrs(servers)), latchkey.OpTimeout(300*time.Millisecond))
	lease := take(t, locks, "k", latchkey.RenewedLease(time.Minute))
	servers[0].Kill(t)
	servers[1].Kill(t)
	if token, err := lease.Token(context.Background()); err == nil {
		t.Errorf("one of three masters answered, and the token is %d", token)
	}
	_ = lease.Release(t.Context())
}
