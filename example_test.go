package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
	"github.com/latchkey-go/latchkey/redisstore"
)

type Order struct {
	ID  string
	SKU string
	Qty int
}

type Receipt struct{ Left int }

// Shop sells what it has in stock. Its methods know nothing of locks.
type Shop struct{ stock map[string]int }

func (s *Shop) Buy(_ context.Context, order Order) (Receipt, error) {
	if s.stock[order.SKU] < order.Qty {
		return Receipt{}, errors.New("sold out")
	}
	s.stock[order.SKU] -= order.Qty
	return Receipt{Left: s.stock[order.SKU]}, nil
}

func (s *Shop) Report(context.Context) error { return nil }

// A service method runs under a lock whose key comes from its argument.
func ExampleFunc() {
	locks := latchkey.New(memstore.New(), latchkey.Namespace("shop"))
	shop := &Shop{stock: map[string]int{"wine": 100}}

	buy := latchkey.Func(locks.WithLock("sku:#{param.sku}", latchkey.Wait(3*time.Second)), shop.Buy)

	receipt, err := buy(context.Background(), Order{SKU: "wine", Qty: 2})
	fmt.Println(receipt.Left, err)
	// Output: 98 <nil>
}

// The same over Redis: any number of processes, one lock.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locks := latchkey.New(redisstore.New(rdb), latchkey.Namespace("shop"))
	defer locks.Close()

	shop := &Shop{}
	buy := latchkey.Func(locks.WithLock("sku:#{param.sku}"), shop.Buy)
	_ = buy
}

// Several arguments get names with Params. An Action returns only an error.
func ExampleAction2() {
	locks := latchkey.New(memstore.New())
	transfer := latchkey.Action2(
		locks.WithLock("account:#{from}", latchkey.Params("from", "to")),
		func(ctx context.Context, from, to string) error {
			fmt.Println(from, "to", to, "under the lock:", locks.Held(ctx, "account:"+from))
			return nil
		})

	_ = transfer(context.Background(), "ann", "bob")
	// Output: ann to bob under the lock: true
}

// A list locks each of its elements: all or none, in an order that can't deadlock.
func ExampleFunc_list() {
	locks := latchkey.New(memstore.New())
	ship := latchkey.Func(locks.WithLock("sku:#{param}"), func(ctx context.Context, skus []string) (int, error) {
		lease, _ := latchkey.LeaseFrom(ctx)
		fmt.Println(lease.Keys())
		return len(skus), nil
	})

	_, _ = ship(context.Background(), []string{"wine", "beer", "wine"})
	// Output: [sku:beer sku:wine]
}

// A busy lock keeps the function from running. OnBusy answers in its place.
func ExampleOnBusy() {
	locks := latchkey.New(memstore.New())
	shop := &Shop{}
	report := latchkey.Action0(locks.WithLock("nightly-report"), shop.Report,
		latchkey.OnBusy(func(_ context.Context, _ latchkey.Args0, busy *latchkey.BusyError) (latchkey.None, error) {
			fmt.Println(busy.Key, "is being written already")
			return latchkey.None{}, nil
		}))

	elsewhere, _ := locks.Acquire(context.Background(), "nightly-report")
	_ = report(context.Background())
	_ = elsewhere.Release(context.Background())
	// Output: nightly-report is being written already
}

// When makes the lock conditional.
func ExampleWhen() {
	locks := latchkey.New(memstore.New())
	buy := latchkey.Action(locks.WithLock("sku:#{param.sku}", latchkey.When("param.qty > 0")),
		func(ctx context.Context, order Order) error {
			fmt.Println(order.Qty, locks.Held(ctx, "sku:"+order.SKU))
			return nil
		})

	_ = buy(context.Background(), Order{SKU: "wine", Qty: 0})
	_ = buy(context.Background(), Order{SKU: "wine", Qty: 1})
	// Output:
	// 0 false
	// 1 true
}

// TryFunc is for templates that come from configuration: a mistake is an error, with its place and a hint.
func ExampleTryFunc() {
	locks := latchkey.New(memstore.New())
	shop := &Shop{}

	_, err := latchkey.TryFunc(locks.WithLock("sku:#{param.sko}"), shop.Buy)
	fmt.Println(err)
	// Output:
	// latchkey: key template: latchkey_test.Order has no member "sko" (1:13)
	//  | sku:#{param.sko}
	//  | ............^
	// hint: did you mean SKU?
}

// Acquire is for work that does not fit one function. The lease must be released.
func ExampleLocks_Acquire() {
	locks := latchkey.New(memstore.New())
	ctx := context.Background()

	lease, err := locks.Acquire(ctx, "import", latchkey.Wait(time.Second), latchkey.MaxHold(time.Hour))
	if err != nil {
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	fmt.Println(lease.Key(), lease.Context().Err()) // work with lease.Context(): it ends if the lock is lost
	// Output: import <nil>
}

// A fencing token lets another system refuse a holder that was overtaken.
func ExampleLease_Token() {
	locks := latchkey.New(memstore.New())
	var tokens []int64
	write := latchkey.Action(locks.WithLock("file:#{param}"), func(ctx context.Context, _ string) error {
		lease, _ := latchkey.LeaseFrom(ctx)
		token, err := lease.Token(ctx)
		tokens = append(tokens, token)
		return err
	})

	_ = write(context.Background(), "a.txt")
	_ = write(context.Background(), "a.txt")
	fmt.Println(tokens[1] > tokens[0])
	// Output: true
}

// Inside the function the lease is in the context: the same key enters it again instead of waiting for itself.
func ExampleLocks_Held() {
	locks := latchkey.New(memstore.New())
	d := locks.WithLock("sku:#{param}")
	inner := latchkey.Action(d, func(ctx context.Context, sku string) error {
		fmt.Println("inner:", locks.Held(ctx, "sku:"+sku))
		return nil
	})
	outer := latchkey.Action(d, func(ctx context.Context, sku string) error { return inner(ctx, sku) })

	fmt.Println(outer(context.Background(), "wine"))
	// Output:
	// inner: true
	// <nil>
}

// An Observer hears what happens to locks.
func ExampleObserve() {
	locks := latchkey.New(memstore.New(), latchkey.Observe(latchkey.ObserverFunc(
		func(_ context.Context, e latchkey.Event) { fmt.Println(e.Kind, e.Template, e.Key) })))
	buy := latchkey.Action(locks.WithLock("sku:#{param}"), func(context.Context, string) error { return nil })

	_ = buy(context.Background(), "wine")
	// Output:
	// acquired sku:#{param} sku:wine
	// released sku:#{param} sku:wine
}
