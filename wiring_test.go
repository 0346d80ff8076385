package latchkey_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

type ctx = context.Context

// valueStore is a store whose type can't be compared.
type valueStore struct {
	*memstore.Store

	_ []int
}

// tokenless is a store that does less than others.
type tokenless struct{ *memstore.Store }

func (tokenless) Capabilities() latchkey.Capabilities { return latchkey.Capabilities{Instant: true} }

func generic[T any](_ ctx, v T) (T, error) { return v, nil }

type seller interface {
	Buy(ctx ctx, p purchase) error
}

type shopValue struct{}

func (shopValue) Buy(ctx, purchase) error { return nil }

// Each mistake in wiring says what is wrong and what to write instead. The messages are in testdata/golden/wiring.txt; a
// reader of that file judges them.
func TestWiringMistakesNameTheFix(t *testing.T) {
	locks := latchkey.New(memstore.New())
	one := func(ctx, purchase) error { return nil }
	two := func(ctx, purchase, int) error { return nil }
	with := func(template string, opts ...latchkey.DecoratorOption) func() {
		return func() { latchkey.Action(locks.WithLock(template, opts...), one) }
	}
	var nilFunc func(ctx, purchase) error
	var nilStore *memstore.Store
	var service seller = shopValue{}

	var got strings.Builder
	for _, c := range []struct {
		name string
		wire func()
	}{
		{"New: nil store", func() { latchkey.New(nil) }},
		{"New: nil pointer as store", func() { latchkey.New(nilStore) }},
		{"New: store that can't be compared", func() { latchkey.New(valueStore{}) }},
		{"New: nil option", func() { latchkey.New(memstore.New(), nil) }},
		{"New: empty namespace", func() { latchkey.New(memstore.New(), latchkey.Namespace("")) }},
		{"New: namespace with a brace", func() { latchkey.New(memstore.New(), latchkey.Namespace("shop{1}")) }},
		{"New: op timeout", func() { latchkey.New(memstore.New(), latchkey.OpTimeout(0)) }},
		{"New: nil observer", func() { latchkey.New(memstore.New(), latchkey.Observe(nil)) }},
		{"New: two mistakes", func() { latchkey.New(memstore.New(), latchkey.Wait(-1), latchkey.LeaseFor(0)) }},
		{"wait: negative", with("k", latchkey.Wait(-time.Second))},
		{"lease: zero", with("k", latchkey.LeaseFor(0))},
		{"lease: under a millisecond", with("k", latchkey.RenewedLease(999*time.Microsecond))},
		{"lease: over what a store can hold", with("k", latchkey.LeaseFor(1<<63-1))},
		{"max hold: zero", with("k", latchkey.MaxHold(0))},
		{"max keys: zero", with("k", latchkey.MaxKeys(0))},
		{"name: blank", with("k", latchkey.Name(" "))},
		{"prefix: empty", with("k", latchkey.Prefix(""))},
		{"prefix: newline", with("k", latchkey.Prefix("a\nb"))},
		{"option: nil", with("k", nil)},
		{"params: too many", with("#{a}", latchkey.Params("a", "b"))},
		{"params: too few", func() { latchkey.Action2(locks.WithLock("#{a.id}", latchkey.Params("a")), two) }},
		{"params: needed", func() { latchkey.Action2(locks.WithLock("#{param.id}"), two) }},
		{"params: not a name", with("#{a}", latchkey.Params("a b"))},
		{"params: taken", with("#{fn}", latchkey.Params("fn"))},
		{"function: nil", func() { latchkey.Action(locks.WithLock("k"), nilFunc) }},
		{"decorator: nil", func() { latchkey.Action(nil, one) }},
		{"function option: nil", func() { latchkey.Action(locks.WithLock("k"), one, nil) }},
		{"fn of a closure", with("#{fn}")},
		{"fn of a generic function", func() { latchkey.Func(locks.WithLock(""), generic[purchase]) }},
		{"fn of an interface's method", func() { latchkey.Action(locks.WithLock(""), service.Buy) }},
		{"fn of a wrapped function", func() {
			latchkey.Action(locks.WithLock(""), latchkey.Action(locks.WithLock("k"), one))
		}},
		{"when: not a condition", with("k", latchkey.When("param.id"))},
		{"when: unknown name", with("k", latchkey.When("param.qyt > 0"))},
		{"template: unknown name", with("order:#{param.idd}")},
		{"template: another library's placeholder", with("order:${id}")},
		{"tokens: store mints none", func() {
			latchkey.New(tokenless{memstore.New()}, latchkey.MintToken())
		}},
	} {
		fmt.Fprintf(&got, "--- %s\n%s\n\n", c.name, panicOf(c.wire))
	}
	latchkey.Golden(t, "wiring", got.String())
	if strings.Contains(got.String(), "no mistake found") {
		t.Error("a mistake was accepted")
	}
}

func panicOf(f func()) (message string) {
	defer func() {
		if p := recover(); p != nil {
			message = fmt.Sprint(p)
		}
	}()
	f()
	return "no mistake found"
}
