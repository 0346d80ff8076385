package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// report prints tables and remembers which targets were missed.
type report struct {
	out    io.Writer
	misses []string
}

// machine says what the figures were taken on.
func (r *report) machine() {
	fmt.Fprintf(r.out, "%s %s/%s, %d cores%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock":
				fmt.Fprintln(r.out, dep.Path, dep.Version)
			}
		}
	}
	r.notef("medians of interleaved rounds, in parentheses the quartiles, or the extremes of fewer than %d rounds", fewRounds)
}

// title begins a table.
func (r *report) titlef(format string, args ...any) {
	fmt.Fprintf(r.out, "\n== %s\n   load average before: %s\n", fmt.Sprintf(format, args...), load())
}

// note adds a line of text.
func (r *report) notef(format string, args ...any) {
	fmt.Fprintf(r.out, "   "+format+"\n", args...)
}

// table prints rows under a head, cells separated by tabs.
func (r *report) table(head string, rows []string) {
	w := tabwriter.NewWriter(r.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, head)
	fmt.Fprintln(w, strings.Repeat("-", strings.IndexByte(head+"\t", '\t')))
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	_ = w.Flush() // an error is the output's, and nobody would see its report either
}

// atMost holds a figure against a target that it must not exceed.
func (r *report) atMost(what string, got series, limit float64) {
	r.verdict(what, got, "≤", limit, got.median() <= limit)
}

// atLeast holds a figure against a target that it must reach.
func (r *report) atLeast(what string, got series, limit float64) {
	r.verdict(what, got, "≥", limit, got.median() >= limit)
}

func (r *report) verdict(what string, got series, relation string, limit float64, ok bool) {
	word := "ok  "
	line := fmt.Sprintf("%s: %s, target %s %v", what, got.spread("%.3g"), relation, limit)
	if !ok {
		word = "MISS"
		r.misses = append(r.misses, line)
	}
	fmt.Fprintln(r.out, word, line)
}

// summary repeats the misses.
func (r *report) summary() {
	fmt.Fprintf(r.out, "\n%d targets missed\n", len(r.misses))
	for _, miss := range r.misses {
		fmt.Fprintln(r.out, "MISS", miss)
	}
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return " of " + strings.TrimSpace(model)
		}
	}
	return ""
}
