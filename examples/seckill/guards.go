package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/redisstore"
)

// Guard says what keeps two buyers from the same bottle.
type Guard string

// The three rounds.
const (
	NoLock   Guard = "without a lock"
	Mutex    Guard = "in-process mutex"
	Latchkey Guard = "latchkey"
)

// BuyFunc is Shop.Buy, or Shop.Buy with a guard around it.
type BuyFunc func(context.Context, Order) (Receipt, error)

// withMutex lets one buyer of this process in at a time. The shop next door has a mutex of its own.
func withMutex(shop *Shop) BuyFunc {
	var mu sync.Mutex
	return func(ctx context.Context, order Order) (Receipt, error) {
		mu.Lock()
		defer mu.Unlock()
		return shop.Buy(ctx, order)
	}
}

// lease is how long a shop that died keeps the others from selling, at most. A shop that lives renews it.
const lease = 2 * time.Second

// newLocks connects latchkey to the Redis that all the shops share.
func newLocks(rdb redis.UniversalClient, namespace string) *latchkey.Locks {
	return latchkey.New(redisstore.New(rdb), latchkey.Namespace(namespace))
}

// withLatchkey lets one buyer of a bottle in at a time, whichever shop they stand in, and has stock and order read and
// written in one transaction: the next buyer gets in when it has been committed. The key comes from the order, so that
// buyers of different bottles do not wait for each other.
func withLatchkey(locks *latchkey.Locks, shop *Shop) BuyFunc {
	return latchkey.Func(
		locks.WithLock("bottle:#{param.sku}", latchkey.Wait(3*time.Second), latchkey.RenewedLease(lease),
			latchkey.Transactional(shop.ledger.txm)),
		shop.Buy,
	)
}
