package main

import (
	"fmt"
	"io"
)

// Report is the results of the rounds.
type Report []Result

// PrintLast writes the line of the last round, under a heading if it is the first of its kind.
func (r Report) PrintLast(w io.Writer) {
	last := r[len(r)-1]
	if len(r) == 1 || r[len(r)-2].faulty() != last.faulty() {
		heading(w, len(r) > 1, last.faulty())
	}
	fmt.Fprintf(w, "%-24s%13d%10d%8d%6d", last.title(), last.Acknowledged, last.Committed, last.Counted, last.Lost())
	if last.faulty() {
		fmt.Fprintf(w, "%6d%10d%12d%11d", last.Stops, last.Deletions, last.LeasesLost, last.FencedOff)
	}
	fmt.Fprintln(w)
}

// Verdict writes what the table shows, and returns the exit code.
func (r Report) Verdict(w io.Writer) int {
	fmt.Fprintln(w)
	failures := r.Failures()
	for _, failure := range failures {
		fmt.Fprintln(w, failure)
	}
	if len(failures) > 0 {
		return 1
	}
	fmt.Fprintln(w, "While leases live latchkey loses nothing. Whatever happens to them, fenced it loses nothing.")
	return 0
}

func heading(w io.Writer, again, faults bool) {
	if again {
		fmt.Fprintln(w)
	}
	what := "under load"
	if faults {
		what = "under faults"
	}
	fmt.Fprintf(w, "%-24s%13s%10s%8s%6s", what, "acknowledged", "committed", "counted", "lost")
	if faults {
		fmt.Fprintf(w, "%6s%10s%12s%11s", "stops", "deletions", "leases lost", "fenced off")
	}
	fmt.Fprintln(w)
}

func (r Result) faulty() bool { return r.Faults > 0 }

func (r Result) title() string {
	if r.Fenced {
		return string(r.Order) + ", fenced"
	}
	return string(r.Order)
}

// control reports whether the round is there to lose something.
func (r Result) control() bool {
	return r.Order == UnlockFirst || r.Order == ByHand || r.faulty() && !r.Fenced
}

// Failures says, a line for each, what latchkey has lost, and why this run proves nothing if it does not.
func (r Report) Failures() (lines []string) {
	for _, result := range r {
		for _, line := range result.failures() {
			lines = append(lines, fmt.Sprintf("%s (%s)", line, result.title()))
		}
	}
	if len(r) == 0 {
		lines = append(lines, "VOID: no round was held")
	}
	return lines
}

func (r Result) failures() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch lost := r.Lost(); {
	case r.control() && lost <= 0:
		add("VOID: the control lost nothing, so the other rounds show nothing")
	case !r.control() && lost != 0:
		add("FAILED: %d transactions were committed and the counters say %d", r.Committed, r.Counted)
	}
	if r.Acknowledged > r.Committed {
		add("FAILED: %d calls were acknowledged and only %d transactions committed", r.Acknowledged, r.Committed)
	}
	if r.Failed > 0 {
		add("FAILED: %d calls failed for no good reason: %s", r.Failed, r.Error)
	}
	if r.faulty() {
		if r.Stops < r.Faults || r.Deletions < r.Faults*deletionsPerStop || r.LeasesLost == 0 {
			add("VOID: %d stops, %d deletions and %d leases lost are too little", r.Stops, r.Deletions, r.LeasesLost)
		}
		if r.Order == Two && r.Fenced && r.FencedOff == 0 {
			add("VOID: nobody was fenced off")
		}
	}
	return lines
}
