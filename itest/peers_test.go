//go:build unix

package itest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// peer is another library's lock of one name. lock reports whether it got it, at once.
type peer func(name string, rdb *redis.Client) (lock func() bool, unlock func() error)

var peers = map[string]peer{
	"redsync": func(name string, rdb *redis.Client) (func() bool, func() error) {
		m := redsync.New(goredis.NewPool(rdb)).NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		return func() bool { return m.Lock() == nil }, func() error {
			ok, err := m.Unlock()
			if err == nil && !ok {
				err = errors.New("redsync: not unlocked")
			}
			return err
		}
	},
	"redislock": func(name string, rdb *redis.Client) (func() bool, func() error) {
		var held *redislock.Lock
		return func() bool {
			var err error
			held, err = redislock.Obtain(context.Background(), rdb, name, time.Minute, nil)
			return err == nil
		}, func() error { return held.Release(context.Background()) }
	},
	"SET NX PX": func(name string, rdb *redis.Client) (func() bool, func() error) {
		ctx := context.Background()
		return func() bool {
			ok, err := rdb.SetNX(ctx, name, "by hand", time.Minute).Result()
			return ok && err == nil
		}, func() error { return rdb.Del(ctx, name).Err() }
	},
}

// legacyName is how the other libraries in this test name a lock.
func legacyName(key string) string { return "legacy-lock-" + key[len("latchkey:"):] }

// withNames is a service whose locks have the names that rename gives.
func withNames(t *testing.T, addr string, rename func(string) string) (*latchkey.Locks, *redis.Client) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	var opts []redisstore.Option
	if rename != nil {
		opts = append(opts, redisstore.KeyName(rename))
	}
	locks := latchkey.New(redisstore.New(rdb, opts...))
	t.Cleanup(func() {
		locks.Close()
		_ = rdb.Close()
	})
	return locks, rdb
}

func TestOtherLibrariesAndLatchkeyExcludeEachOtherOnOneName(t *testing.T) {
	t.Parallel()
	for name, p := range peers {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t)
			locks, rdb := withNames(t, srv.Addr(), legacyName)
			lock, unlock := p("legacy-lock-42", rdb)
			ctx := context.Background()

			if !lock() {
				t.Fatal("the other library can't take a free lock")
			}
			if _, err := locks.Acquire(ctx, "42"); !errors.Is(err, latchkey.ErrBusy) {
				t.Errorf("the other library holds the lock and Acquire returns %v", err)
			}
			if err := unlock(); err != nil {
				t.Fatalf("a refused Acquire has disturbed the holder: %v", err)
			}
			lease, err := locks.Acquire(ctx, "42")
			if err != nil {
				t.Fatal(err)
			}
			if lock() {
				t.Error("the other library got a lock that latchkey holds")
			}
			if !locks.Held(lease.Context(), "42") {
				t.Error("the key of a lock is not what it was acquired with")
			}
			release(t, lease)
			if !lock() {
				t.Error("the other library does not get a lock that latchkey has released")
			}
			if err := unlock(); err != nil {
				t.Error(err)
			}
			nothingLeft(t, srv)
		})
	}
}

// The control: with names of its own latchkey does not see the other libraries' locks, and the same test would notice.
func TestOtherLibrariesAreNotExcludedUnderAnotherName(t *testing.T) {
	t.Parallel()
	for name, p := range peers {
		srv := testenv.Redis(t)
		locks, rdb := withNames(t, srv.Addr(), nil)
		lock, unlock := p("legacy-lock-42", rdb)
		lease, err := locks.Acquire(context.Background(), "42")
		if err != nil {
			t.Fatal(err)
		}
		if !lock() {
			t.Errorf("%s: refused by a lock of another name", name)
		}
		release(t, lease)
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
}

func TestWaiterEntersSoonAfterAnotherLibrarysUnlock(t *testing.T) {
	t.Parallel()
	const rounds = 11
	for name, p := range peers {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t)
			locks, rdb := withNames(t, srv.Addr(), legacyName)
			lock, unlock := p("legacy-lock-42", rdb)
			var gaps []time.Duration
			for range rounds {
				if !lock() {
					t.Fatal("the lock is not free")
				}
				ctx := &queuedCtx{Context: context.Background(), queued: make(chan struct{})}
				entered := make(chan *latchkey.Lease, 1)
				go func() {
					lease, err := locks.Acquire(ctx, "42", latchkey.Wait(patience))
					if err != nil {
						t.Error(err)
					}
					entered <- lease
				}()
				hear(t, "the waiter waits", ctx.queued)
				begin := time.Now()
				if err := unlock(); err != nil {
					t.Fatal(err)
				}
				lease := hear(t, "the waiter is in", entered)
				gaps = append(gaps, time.Since(begin))
				if lease != nil {
					release(t, lease)
				}
			}
			slices.Sort(gaps)
			t.Logf("entered %v after the unlock, at most %v", gaps[rounds/2], gaps[rounds-1])
			// The median: a machine that is busy with other things has a bad moment now and then.
			if gaps[rounds/2] > 100*time.Millisecond {
				t.Errorf("half of the waiters entered later than %v after the unlock", gaps[rounds/2])
			}
		})
	}
}
