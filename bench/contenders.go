package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/redisstore"
)

// leaseTime is how long a lock lives in all libraries: nothing here takes so long.
const leaseTime = 30 * time.Second

// locked runs a visit under the lock of the order with an id.
type locked func(ctx context.Context, id int64, v *visit) error

// The names of contenders. Those that poll have the delay in theirs.
const (
	isRaw         = "raw"
	isByHand      = "by hand"
	isLatchkey    = "latchkey" // tries once
	isLatchkey3s  = "latchkey Wait(3s)"
	isLatchkeyFor = "latchkey WaitForever"
	isRedsync     = "redsync" // the delay it comes with: 50 to 250 ms
	isRedislock   = "redislock"
	isMutex       = "mutex"
	isPrototype   = "prototype"
)

// contend makes a contender ready.
func contend(j job) (locked, error) {
	name, delay, err := polling(j.Contender)
	if err != nil {
		return nil, err
	}
	switch name {
	case isRaw:
		return raw(j.Addr)
	case isByHand:
		return byHand(connect(j))
	case isLatchkey:
		return decorated(redisstore.New(connect(j))), nil
	case isLatchkey3s:
		return decorated(redisstore.New(connect(j)), latchkey.Wait(3*time.Second)), nil
	case isLatchkeyFor:
		return decorated(redisstore.New(connect(j)), latchkey.WaitForever()), nil
	case isRedsync:
		return withRedsync(connect(j), delay), nil
	case isRedislock:
		return withRedislock(connect(j), delay), nil
	case isMutex:
		var mu sync.Mutex
		return func(_ context.Context, _ int64, v *visit) error {
			mu.Lock()
			defer mu.Unlock()
			v.run()
			return nil
		}, nil
	case isPrototype:
		return prototype(connect(j))
	case isTxByHand, isTxHandle, isTx, isTxFenced:
		return inTransactions(j, connect(j))
	}
	return nil, j.errorf("there is no such contender")
}

// polling splits "redsync, 1ms".
func polling(contender string) (name string, delay time.Duration, err error) {
	name, text, found := strings.Cut(contender, ", ")
	if found {
		delay, err = time.ParseDuration(text)
	}
	return name, delay, err
}

// orderParam is the argument of the decorated function.
type orderParam struct {
	ID    int64
	visit *visit
}

func decorated(store latchkey.Store, opts ...latchkey.DecoratorOption) locked {
	locks := latchkey.New(store)
	f := latchkey.Func(locks.WithLock("order:#{param.id}", opts...), func(_ context.Context, p orderParam) (struct{}, error) {
		p.visit.run()
		return struct{}{}, nil
	})
	return func(ctx context.Context, id int64, v *visit) error {
		_, err := f(ctx, orderParam{id, v})
		return err
	}
}

func orderKey(id int64) string { return "latchkey:order:" + strconv.FormatInt(id, 10) }

// compareAndDelete is how everybody unlocks.
const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

// byHand is what somebody writes who needs no library: no more checks than it takes not to unlock another's lock.
func byHand(client *redis.Client) (locked, error) {
	sha, err := client.ScriptLoad(context.Background(), compareAndDelete).Result()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, id int64, v *visit) error {
		key, owner := orderKey(id), rand.Text()
		ok, err := client.SetNX(ctx, key, owner, leaseTime).Result()
		if err != nil {
			return err
		}
		if !ok {
			return redislock.ErrNotObtained
		}
		defer func() { _ = client.EvalSha(ctx, sha, []string{key}, owner).Err() }()
		v.run()
		return nil
	}, nil
}

func withRedsync(client redis.UniversalClient, delay time.Duration) locked {
	rs := redsync.New(goredis.NewPool(client))
	opts := []redsync.Option{redsync.WithExpiry(leaseTime), redsync.WithTries(1 << 30)}
	if delay > 0 {
		opts = append(opts, redsync.WithRetryDelay(delay))
	}
	return func(ctx context.Context, id int64, v *visit) error {
		mu := rs.NewMutex(orderKey(id), opts...)
		if err := mu.LockContext(ctx); err != nil {
			return err
		}
		defer func() { _, _ = mu.UnlockContext(ctx) }()
		v.run()
		return nil
	}
}

func withRedislock(client redis.UniversalClient, delay time.Duration) locked {
	locker := redislock.New(client)
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(delay)}
	return func(ctx context.Context, id int64, v *visit) error {
		lock, err := locker.Obtain(ctx, orderKey(id), leaseTime, opts)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Release(ctx) }()
		v.run()
		return nil
	}
}
