package main

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The least that a lock with a queue and a push does on the server. ARGV: owner, lease ms, channel.
const (
	protoAcquire = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[3])
return 0`
	protoRelease = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('LPOP', KEYS[2])
if not next then redis.call('DEL', KEYS[1]) return 1 end
local owner, channel = string.match(next, '^(%S+) (%S+)$')
redis.call('SET', KEYS[1], owner, 'PX', ARGV[2])
redis.call('PUBLISH', channel, owner)
return 1`
)

// prototype is a lock whose release grants it to the next in line and says so, over one subscription, by hand. It has no
// watchdog, no fallback for a message that is lost and no help for a waiter that dies: it is the floor of a hand-over.
func prototype(client *redis.Client) (locked, error) {
	ctx := context.Background()
	acquire, err := client.ScriptLoad(ctx, protoAcquire).Result()
	if err != nil {
		return nil, err
	}
	release, err := client.ScriptLoad(ctx, protoRelease).Result()
	if err != nil {
		return nil, err
	}
	channel := "prototype:" + rand.Text()
	sub := client.Subscribe(ctx, channel)
	if _, err := sub.Receive(ctx); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	waiters := make(map[string]chan struct{})
	go func() { // until the process ends
		for {
			msg, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			if w := waiters[msg.Payload]; w != nil {
				close(w)
			}
			mu.Unlock()
		}
	}()
	return func(ctx context.Context, id int64, v *visit) error {
		key, owner := strings.Replace(orderKey(id), "latchkey", "prototype", 1), rand.Text()
		keys, granted := []string{key, key + ":q"}, make(chan struct{})
		mu.Lock()
		waiters[owner] = granted
		mu.Unlock()
		got, err := client.EvalSha(ctx, acquire, keys, owner, leaseTime.Milliseconds(), channel).Int()
		if err == nil && got == 0 {
			select {
			case <-granted:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		mu.Lock()
		delete(waiters, owner)
		mu.Unlock()
		if err != nil {
			return err
		}
		v.run()
		return client.EvalSha(ctx, release, keys, owner, leaseTime.Milliseconds()).Err()
	}, nil
}

// pings measures how long a PING takes after a pause, as long as a waiter's in the table of hand-overs: then the cores
// have to wake up first.
func pings(j job) (func(turn) (any, error), error) {
	client := connect(j)
	return func(t turn) (any, error) {
		var took []time.Duration
		for time.Now().Before(t.end()) {
			time.Sleep(j.Body)
			begin := time.Now()
			if err := client.Ping(context.Background()).Err(); err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin))
		}
		return pairsResult{Waits: took}, nil
	}, nil
}
