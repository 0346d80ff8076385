package latchkey

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// levels are pairs of templates, the second one level deeper than the first. No value may lift a key of the first to
// the second: order:#{id} with the id 1:items is not the items of order 1.
var levels = []struct{ upper, lower, sep string }{
	{"order:#{p.A}", "order:#{p.A}:items", ":"},
	{"order:#{p.A}", "order:#{p.A}:#{p.B}", ":"},
	{"order:#{p.A}:#{p.B}", "order:#{p.A}:#{p.B}:#{p.C}", ":"},
	{"shop/#{p.A}", "shop/#{p.A}/#{p.B}", "/"},
	{"u-#{p.A}", "u-#{p.A}-#{p.B}", "-"},
	{"x:#{p.A}", "x:#{p.A}:%3A:#{p.B}", ":"},
}

// crossings counts how many keys of the upper template equal one of the lower, for values chosen to make them equal.
func crossings(seed uint64, n int, sep string, suffix []string, upper, lower renderer) (compared, shared int) {
	r := rand.New(rand.NewPCG(seed, 2))
	for range n {
		v := texts{pick(r, sep) + "a", pick(r, sep) + "b", pick(r, sep) + "c"}
		deep, ok := lower(v)
		// The value that would reach into the next level, raw or written as the encoder writes it.
		tail := suffix[r.IntN(len(suffix))]
		tail = strings.NewReplacer("#A", v.A, "#B", v.B, "#C", v.C).Replace(tail)
		w := v
		switch r.IntN(3) {
		case 0:
			w.A += tail
		case 1:
			w.A, w.B = v.A+tail, v.B+tail
		case 2:
			w.B += tail
		}
		flat, ok2 := upper(w)
		if !ok || !ok2 {
			continue
		}
		compared++
		if flat == deep {
			shared++
		}
	}
	return compared, shared
}

func suffixes(sep string) []string {
	return []string{sep + "items", sep + "#B", sep + "#C", swapEscape(sep) + "items", swapEscape(sep) + "#B", sep + "%3A" + sep + "#B",
		sep + "%253A" + sep + "#B", "~"}
}

func TestTwoLevelsNeverShareAKey(t *testing.T) {
	for _, l := range levels {
		compared, shared := crossings(1, 5_000, l.sep, suffixes(l.sep),
			templateRenderer(t, l.upper), templateRenderer(t, l.lower))
		if shared > 0 || compared < 3_000 {
			t.Errorf("%s and %s: %d of %d keys are equal", l.upper, l.lower, shared, compared)
		}
	}
}

func TestLevelTestCatchesABrokenEncoder(t *testing.T) {
	plain := func(template string) renderer {
		return func(v texts) (string, bool) {
			return strings.NewReplacer("#{p.A}", v.A, "#{p.B}", v.B, "#{p.C}", v.C).Replace(template), true
		}
	}
	for _, l := range levels {
		if _, shared := crossings(1, 5_000, l.sep, suffixes(l.sep), plain(l.upper), plain(l.lower)); shared == 0 {
			t.Errorf("%s and %s: no crossing found", l.upper, l.lower)
		}
	}
}
