package main

import (
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

func TestMain(m *testing.M) {
	pinSelf()
	testenv.Main(m, children)
}

// TestTables takes every measurement, too short to mean anything: it shows that the programs still work. Targets are for
// a quiet machine and are not looked at, but two holders at once and locks that nobody gets fail the measurement.
func TestTables(t *testing.T) {
	for _, b := range benchmarks {
		t.Run(b.name, func(t *testing.T) {
			var out strings.Builder
			b.measure(t, config{rounds: 1, slice: 30 * time.Millisecond, quick: true}, &report{out: &out})
			t.Log(out.String())
			for _, want := range []string{b.name, "load average", "latchkey"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the table does not say %q", want)
				}
			}
			if strings.Contains(out.String(), "NaN") {
				t.Error("a figure is missing")
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "uncontended,cold"}, {"-rounds", "many"}} {
		if _, err := run(args, t.Output()); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestTwoHoldersAtOnceAreFound(t *testing.T) {
	good := []pairsResult{{Entered: []int64{10, 30}, Left: []int64{20, 40}}, {Entered: []int64{21}, Left: []int64{29}}}
	if took, err := handovers(good); err != nil || len(took) != 2 {
		t.Errorf("holders one after the other: %v, %v", took, err)
	}
	bad := []pairsResult{{Entered: []int64{10, 30}, Left: []int64{20, 40}}, {Entered: []int64{19}, Left: []int64{29}}}
	if _, err := handovers(bad); err == nil {
		t.Error("two holders at once are not found")
	}
}

func TestFigures(t *testing.T) {
	s := series{4, 1, 3}
	for what, c := range map[string]struct{ got, want float64 }{
		"median of three":      {s.median(), 3},
		"median of four":       {series{4, 1, 3, 2}.median(), 2.5},
		"highest":              {s.quantile(0.99), 4},
		"ratio of each round":  {s.over(series{2, 1, 1}).median(), 2},
		"best of each round":   {better(s, series{1, 2, 1})[1], 2},
		"all have the same":    {jain([]int64{5, 5, 5, 5}), 1},
		"one of four has them": {jain([]int64{20, 0, 0, 0}), 0.25},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
