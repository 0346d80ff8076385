package locktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/memstore"
)

// example stands in for the *testing.T of a test.
type example struct{}

func (example) Helper()                           {}
func (example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// debit must only be called under the lock of its account.
//
//nolint:revive // a test comes first, as everywhere
func debit(t locktest.TB, ctx context.Context, account int) error {
	if !locktest.AssertHeld(t, ctx, fmt.Sprintf("account:%d", account)) {
		return errors.New("refused")
	}
	fmt.Println("debited", account)
	return nil
}

func ExampleAssertHeld() {
	var t example // in a test: its *testing.T
	locks := latchkey.New(memstore.New())
	pay := latchkey.Action(locks.WithLock("account:#{param}"), func(ctx context.Context, account int) error {
		return debit(t, ctx, account)
	})

	_ = pay(context.Background(), 7)
	_ = debit(t, context.Background(), 7)
	// Output:
	// debited 7
	// lock "account:7" is not held: the context carries no lease that is; pass on the context that the locked function was given
}

func ExampleRecorder() {
	rec := locktest.NewRecorder(memstore.New())
	locks := latchkey.New(rec, latchkey.Namespace("shop"))
	buy := latchkey.Action(locks.WithLock("sku:#{param}"), func(_ context.Context, sku string) error {
		fmt.Println("bought", sku)
		return nil
	})

	_ = buy(context.Background(), "A-1")
	fmt.Println(rec.Locked(), rec.Released())

	rec.FailWith(func(latchkey.Op) error { return errors.New("connection refused") })
	err := buy(context.Background(), "B-2")
	fmt.Println(errors.Is(err, latchkey.ErrStore))
	// Output:
	// bought A-1
	// [shop:sku:A-1] [shop:sku:A-1]
	// true
}

func ExampleVerify() {
	store := memstore.New() // in a test of your own store: two clients of one server
	fmt.Println(len(locktest.Verify(store, store)), "violations")
	// Output: 0 violations
}
