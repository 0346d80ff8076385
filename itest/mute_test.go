//go:build unix

package itest

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

var rejectedField = regexp.MustCompile(`rejected_calls=(\d+)`)

// rejected is how often the server refused a command.
func rejected(t *testing.T, srv *testenv.Server, command string) int {
	t.Helper()
	m := rejectedField.FindStringSubmatch(srv.Info(t, "commandstats")["cmdstat_"+command])
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The account that the service has at the server may use no channel, which is how Redis 7 makes accounts: the script that
// passes the lock on failed behind its back, and the waiters were held up by a subscription that never came.
func TestAServerWhereNobodyMayPublish(t *testing.T) {
	t.Parallel()
	const key, waiters = "mute", 4
	srv := testenv.Redis(t)
	srv.Do(t, "ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all", "resetchannels")
	options := func() *redis.Options { return &redis.Options{Addr: srv.Addr(), Username: "shop", Password: "secret"} }
	here, there := connectBy(t, options(), plain), connectBy(t, options(), plain)

	for round := range 3 {
		held := here.take(t, key)
		in := make(chan time.Time)
		for i := range waiters {
			s := []*service{here, there}[i%2]
			go func() {
				l, err := s.Acquire(context.Background(), key, latchkey.Wait(patience))
				in <- time.Now()
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
		here.events.await(t, latchkey.EventWaiting, (round+1)*waiters/2)
		there.events.await(t, latchkey.EventWaiting, (round+1)*waiters/2)
		eventually(t, "the other process queues", func() bool { return srv.Do(t, "EXISTS", queueOf(key)) == int64(1) })
		released := time.Now()
		release(t, held)
		for range waiters {
			if after := hear(t, "a waiter gets in", in).Sub(released); after > 10*time.Second {
				t.Errorf("a waiter got in only after %v", after)
			}
		}
	}
	if n := rejected(t, srv, "subscribe"); n == 0 || n > 40 {
		t.Errorf("%d subscriptions were refused; want some, or nothing is shown, but no storm", n)
	}
	// Whoever queues is not held up each time.
	held := there.take(t, key)
	_, err := here.Acquire(t.Context(), key, latchkey.Wait(time.Millisecond))
	busy(t, key, err)
	begin := time.Now()
	for range 20 {
		_, err := here.Acquire(t.Context(), key, latchkey.Wait(time.Millisecond))
		busy(t, key, err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("20 short waits took %v", took)
	}
	release(t, held)
	nothingLeft(t, srv)
}
