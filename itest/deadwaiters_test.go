//go:build unix

package itest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// Processes died while they queued: each of their places was granted the lock in its turn and let it lie for two seconds.
func TestDeadWaitersHoldNobodyUpForLong(t *testing.T) {
	t.Parallel()
	const key, dead, handOvers = "deploy", 8, 8
	for name, c := range map[string]struct {
		silent time.Duration // how long the dead have not been heard of when the lock is let go
		atMost time.Duration
	}{
		"dead for a while":                    {3 * time.Second, 2 * time.Second},
		"control: dead for no time, one lies": {0, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			one, other := connect(t, srv.Addr()), connect(t, srv.Addr())
			held := one.take(t, key)
			client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
			defer client.Close()
			store := redisstore.New(client)
			for i := range dead {
				op := latchkey.Op{
					Kind: latchkey.OpAcquire, Key: full(key), Owner: fmt.Sprintf("lk:dead%d", i), Lease: time.Minute,
					Queue: true, Grant: 2 * time.Second,
				}
				store.Do(t.Context(), []*latchkey.Op{&op})
				if op.OK || op.Err != nil {
					t.Fatalf("OK = %t, %v; want a refusal", op.OK, op.Err)
				}
			}
			if n := srv.Do(t, "ZCARD", queueOf(key)); n != int64(dead) {
				t.Fatalf("void: %v places", n)
			}
			since := look(t, srv, key).at
			eventually(t, "they have been silent for long enough", func() bool { return look(t, srv, key).at.Sub(since) >= c.silent })

			begin := time.Now()
			granted := 0
			for i := range handOvers {
				next := []*service{other, one}[i%2]
				in := make(chan *latchkey.Lease, 1)
				go func() {
					l, err := next.Acquire(context.Background(), key, latchkey.Wait(patience))
					if err != nil {
						t.Error(err)
					}
					in <- l
				}()
				next.events.await(t, latchkey.EventWaiting, i/2+1)
				eventually(t, "it queues", func() bool { return number(t, srv.Do(t, "ZCARD", queueOf(key))) > 0 })
				from := time.Now()
				release(t, held)
				if held = hear(t, "it gets in", in); held == nil {
					t.FailNow()
				}
				if time.Since(from) > time.Second {
					granted++
				}
			}
			took := time.Since(begin)
			release(t, held)
			t.Logf("%d hand-overs took %v; %d times a dead one had the lock first", handOvers, took, granted)
			if took > c.atMost {
				t.Errorf("that is more than %v", c.atMost)
			}
			if c.silent == 0 && granted == 0 {
				t.Error("void: no dead one was ever granted the lock")
			}
			nothingLeft(t, srv)
		})
	}
}
