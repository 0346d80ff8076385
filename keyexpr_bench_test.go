package latchkey

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"
)

// benchOrder has the fields that keys are usually made of.
type benchOrder struct {
	Note string
	ID   int64
	SKU  string
	Shop *benchShop
}

type benchShop struct {
	Town string
	ID   int64
	SKU  string
}

// Each case renders one key by a compiled template and by the closure that a programmer would write instead. The
// template may take at most twice the time, and allocates nothing but the key.
func BenchmarkKey(b *testing.B) {
	ctx := context.Background()
	order := benchOrder{ID: 1234567890, SKU: "4006381333931-A", Shop: &benchShop{ID: 42, SKU: "4006381333931-B"}}

	value := func(template string) func(o benchOrder) string {
		k := mustCompile(b, template, Var[benchOrder]("param"))
		return func(o benchOrder) string {
			key, _, err := renderArg(ctx, k, &o)
			if err != nil {
				b.Fatal(err)
			}
			return key
		}
	}
	pointer := func(template string) func(o *benchOrder) string {
		k := mustCompile(b, template, Var[*benchOrder]("param"))
		return func(o *benchOrder) string {
			key, _, err := renderArg(ctx, k, &o)
			if err != nil {
				b.Fatal(err)
			}
			return key
		}
	}
	for _, bb := range []struct {
		name, template string
		byHand         func(o *benchOrder) string
	}{
		{"int", "order:#{param.id}", func(o *benchOrder) string {
			var buf [64]byte
			return string(strconv.AppendInt(append(buf[:0], "order:"...), o.ID, 10))
		}},
		{"string", "sku:#{param.sku}", func(o *benchOrder) string {
			var buf [64]byte
			return string(append(append(buf[:0], "sku:"...), o.SKU...))
		}},
		{"nested int", "shop:#{param.shop.id}", func(o *benchOrder) string {
			var buf [64]byte
			return string(strconv.AppendInt(append(buf[:0], "shop:"...), o.Shop.ID, 10))
		}},
		{"nested string", "sku:#{param.shop.sku}", func(o *benchOrder) string {
			var buf [64]byte
			return string(append(append(buf[:0], "sku:"...), o.Shop.SKU...))
		}},
		{"two", "order:#{param.id}:#{param.sku}", func(o *benchOrder) string {
			var buf [64]byte
			b := strconv.AppendInt(append(buf[:0], "order:"...), o.ID, 10)
			return string(append(append(b, ':'), o.SKU...))
		}},
	} {
		b.Run(bb.name+"/by hand", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = bb.byHand(&order)
			}
		})
		b.Run(bb.name+"/struct", func(b *testing.B) {
			render := value(bb.template)
			b.ReportAllocs()
			for b.Loop() {
				sink = render(order)
			}
		})
		b.Run(bb.name+"/pointer", func(b *testing.B) {
			render := pointer(bb.template)
			b.ReportAllocs()
			for b.Loop() {
				sink = render(&order)
			}
		})
		b.Run(bb.name+"/ratio", func(b *testing.B) {
			hand := func() { sink = bb.byHand(&order) }
			s, p := value(bb.template), pointer(bb.template)
			b.ReportMetric(ratio(hand, func() { sink = s(order) }), "×struct")
			b.ReportMetric(ratio(hand, func() { sink = p(&order) }), "×pointer")
		})
	}
}

// ratio compares two functions in alternating rounds, by the best round of each: a busy machine slows both.
func ratio(hand, template func()) float64 {
	const calls, rounds = 200, 1000
	best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for range rounds {
		for i, f := range []func(){hand, template} {
			start := time.Now()
			for range calls {
				f()
			}
			best[i] = min(best[i], time.Since(start))
		}
	}
	return float64(best[1]) / float64(best[0])
}

// BenchmarkKeyVM shows what an expression costs that is more than a path.
func BenchmarkKeyVM(b *testing.B) {
	ctx := context.Background()
	order := &benchOrder{ID: 1234567890, SKU: "4006381333931-A"}
	for _, template := range []string{`sku:#{param.sku ?? "none"}`, `order:#{string(param.id)}`, `sku:#{upper(param.sku)}`} {
		k := mustCompile(b, template, Var[*benchOrder]("param"))
		b.Run(template, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _, _ = renderArg(ctx, k, &order)
			}
		})
	}
}

// BenchmarkCompileKey shows what wrapping a function costs, once.
func BenchmarkCompileKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, "order:#{param.id}:#{param.sku}", Var[benchOrder]("param"))
	}
}

var sink string

func mustCompile(tb testing.TB, template string, opts ...KeyOption) *KeyExpr {
	tb.Helper()
	k, err := CompileKey(template, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}
