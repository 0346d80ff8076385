package latchkey_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/latchkey-go/latchkey"
)

type order struct {
	ID     int64 `json:"id"`
	Coupon *string
	Buyer  *buyer
	Lines  []line
}

type buyer struct{ Name string }

type line struct{ SKU string }

func ExampleCompileKey() {
	k, err := latchkey.CompileKey("order:#{order.id}:#<order.buyer.name>", latchkey.Var[order]("order"))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := k.Render(context.Background(), order{ID: 42, Buyer: &buyer{"Ann"}})
	fmt.Println(key, err)
	// Output: order:42:Ann <nil>
}

// A template that does not fit the types is refused before anything runs.
func ExampleCompileKey_mistake() {
	_, err := latchkey.CompileKey("order:#{order.idd}", latchkey.Var[order]("order"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, latchkey.ErrKey))
	// Output:
	// latchkey: key template: latchkey_test.order has no member "idd" (1:15)
	//  | order:#{order.idd}
	//  | ..............^
	// hint: did you mean ID?
	// true
}

// A call that has no value for the key has no key, and must not run: it would share one lock with all its like.
func ExampleKeyExpr_Render_missing() {
	k, err := latchkey.CompileKey("buyer:#{order.buyer.name}", latchkey.Var[order]("order"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = k.Render(context.Background(), order{ID: 42})
	fmt.Println(err)
	// Output: latchkey: no key from template "buyer:#{order.buyer.name}": order.buyer is nil
}

// ?? says what stands for a value that is not there; it covers the whole path on its left.
func ExampleKeyExpr_Render_coalesce() {
	k, err := latchkey.CompileKey(`coupon:#{order.coupon ?? "none"}:#{order.buyer.name ?? order.id}`,
		latchkey.Var[order]("order"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.Render(context.Background(), order{ID: 42}))
	// Output: coupon:none:42 <nil>
}

// Values are written so that different ones never make the same key.
func ExampleKeyExpr_Render_separators() {
	k, err := latchkey.CompileKey("item:#{shop}:#{sku}", latchkey.Var[string]("shop"), latchkey.Var[string]("sku"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.Render(context.Background(), "a:b", "c"))
	fmt.Println(k.Render(context.Background(), "a", "b:c"))
	// Output:
	// item:a%3Ab:c <nil>
	// item:a:b%3Ac <nil>
}

// A list makes one key for each of its elements, sorted and each of them once.
func ExampleKeyExpr_RenderAll() {
	k, err := latchkey.CompileKey("sku:#{map(order.lines, .sku)}", latchkey.Var[order]("order"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.RenderAll(context.Background(), order{Lines: []line{{"pear"}, {"apple"}, {"pear"}}}))
	// Output: [sku:apple sku:pear] <nil>
}
