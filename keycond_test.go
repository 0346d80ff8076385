package latchkey

import (
	"errors"
	"testing"
	"unsafe"
)

func TestConditionsDecideOverTheArguments(t *testing.T) {
	for _, tt := range []struct {
		expr string
		want bool
	}{
		{"true", true},
		{"p.paid", true},
		{"!p.paid", false},
		{"p.id > 41 and p.id < 43", true},
		{`p.status == "open"`, true},
		{`p.UserID == ""`, true}, // empty text is a value where it does not become part of a key
		{`p.name contains "nn"`, true},
		{`p.name matches "^A"`, true},
		{`p.status in ["open", "new"]`, true},
		{"p.max > 9223372036854775807", true},
		{"p.count == 7", true},
		{"len(p.items) == 3", true},
		{"any(p.items, .qty > 2)", true},
		{"all(p.items, .sku in ['a', 'b'])", true},
		{"p.self == nil", true},
		{"p.self.name == nil", true},
		{"p.title != nil", true},
		{`(p.self.name ?? "") == ""`, true},
		{`p.expires > p.created - duration("1s")`, true},
		{"p.ttl >= duration('1s')", true},
		{`p.meta.s == "text"`, true},
		{"p.meta.n == 9", true},
		{"p.float > 2.5", true},
		{"string(p.proto.state) == 'PAID'", true},
		{"p.print == 1", true},
		{"fn == 'shop.Pay'", true},
	} {
		c, err := compileCond(tt.expr, keyEnv{vars: []KeyVar{Var[*keyParam]("p")}, fnName: "shop.Pay"})
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
			continue
		}
		p := sampleParam()
		if got, err := c.eval(t.Context(), []unsafe.Pointer{onHeap(&p)}); got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v", tt.expr, got, err)
		}
	}
}

func TestConditionOverNilIsUndecided(t *testing.T) {
	for _, expr := range []string{
		"p.self.paid", "p.self.id > 1", "p.stock.b > 1", "p.boom == ''", "p.self.name == p.name",
	} {
		c, err := compileCond(expr, keyEnv{vars: []KeyVar{Var[*keyParam]("p")}})
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		p := sampleParam()
		got, err := c.eval(t.Context(), []unsafe.Pointer{onHeap(&p)})
		var e *KeyError
		if got || !errors.Is(err, ErrKey) || !errors.As(err, &e) || e.Template != expr {
			t.Errorf("%s: got %v, %v, want ErrKey", expr, got, err)
		}
	}
}
