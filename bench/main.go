package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// config is how long and how often to measure.
type config struct {
	rounds int
	slice  time.Duration // of one contender in one round; tables that need more time take a multiple
	quick  bool          // only show that it works
}

// fine spreads the same time over more rounds, of d each: what takes microseconds needs no second to show, and contenders
// that take turns quickly meet the same disturbances.
func (c config) fine(d time.Duration) config {
	if d < c.slice {
		c.rounds, c.slice = c.rounds*int(c.slice/d), d
	}
	return c
}

// benchmark is one table.
type benchmark struct {
	name    string
	measure func(env testenv.TB, c config, r *report)
}

var benchmarks = []benchmark{
	{"uncontended", uncontended},
	{"throughput", throughput},
	{"hot", hot},
	{"processes", processes},
	{"handover", handover},
	{"memstore", memory},
	{"keys", keys},
	{"http", web},
	{"transactions", transactions},
	{"quorum", quorum},
	{"held", held},
}

// children are the functions that run in processes of their own.
var children = testenv.Children{"worker": work}

func main() {
	pinSelf()
	testenv.RunChildren(children)
	misses, err := run(os.Args[1:], os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case misses > 0:
		os.Exit(1)
	}
}

// run measures what args ask for and returns how many targets were missed, 0 unless that is to count. A measurement
// that fails ends the program.
func run(args []string, out io.Writer) (misses int, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `tables`: "+strings.Join(names(), ", "))
	rounds := flags.Int("rounds", 5, "how often each contender has its turn")
	slice := flags.Duration("slice", time.Second, "how long a turn takes")
	quick := flags.Bool("quick", false, "one short turn each: shows that everything works, not how fast")
	strict := flags.Bool("strict", false, "exit code 1 if a target is missed")
	flags.StringVar(&profileDir, "profile", "", "`directory` for a CPU profile of every turn of every contender")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	chosen, err := choose(*only)
	if err != nil {
		return 0, err
	}
	c := config{rounds: max(*rounds, 1), slice: max(*slice, time.Millisecond), quick: *quick}
	if c.quick {
		c.rounds, c.slice = 1, 50*time.Millisecond
	}
	r := &report{out: out}
	r.machine()
	if c.quick {
		r.notef("quick: the figures mean nothing")
	}
	for _, b := range chosen {
		env := testenv.Program()
		b.measure(env, c, r)
		env.Close()
	}
	r.summary()
	if *strict {
		misses = len(r.misses)
	}
	return misses, nil
}

func names() []string {
	all := make([]string, len(benchmarks))
	for i, b := range benchmarks {
		all[i] = b.name
	}
	return all
}

// choose returns the tables in a comma-separated list, all if it is empty.
func choose(list string) ([]benchmark, error) {
	if list == "" {
		return benchmarks, nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(names(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("-only: no table %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, benchmarks[i])
	}
	return chosen, nil
}
