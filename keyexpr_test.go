package latchkey

import (
	"errors"
	"testing"
)

type testItem struct {
	SKU string `json:"sku"`
	Qty int
}

type testParam struct {
	ID     int64 `json:"id"`
	Name   string
	Items  []testItem
	Coupon *string
	Order  *testParam
}

func TestKeyOfOneArgument(t *testing.T) {
	k, err := CompileKey("order:#{param.id}:#<param.order.name>", Var[testParam]("param"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := k.Render(t.Context(), testParam{ID: 42, Order: &testParam{Name: "a:b"}})
	if want := "order:42:a%3Ab"; key != want || err != nil {
		t.Fatalf("got %q, %v, want %q", key, err, want)
	}
	if _, err = k.Render(t.Context(), testParam{ID: 42}); !errors.Is(err, ErrKey) {
		t.Fatalf("nil on the path: got %v, want ErrKey", err)
	}
}
