package main

import (
	"fmt"
	"io"
	"time"
)

// Report is the results of the rounds.
type Report []Result

// Print writes the table and the verdict, and returns the exit code.
func (r Report) Print(w io.Writer) int {
	fmt.Fprintf(w, "%-17s%6s%12s%10s%12s%9s%9s\n", "round", "sold", "stock left", "oversold", "requests/s", "p50", "p99")
	for _, result := range r {
		fmt.Fprintf(w, "%-17s%6d%12d%10d%12.0f%9s%9s\n", result.Guard, result.Sold, result.Left, result.Oversold(),
			float64(result.Requests)/result.Took.Seconds(), rounded(result.P50), rounded(result.P99))
	}
	fmt.Fprintln(w)

	failures := r.Failures()
	for _, failure := range failures {
		fmt.Fprintln(w, "FAILED:", failure)
	}
	if len(failures) > 0 {
		return 1
	}
	locked, mutex := r.of(Latchkey), r.of(Mutex)
	fmt.Fprintf(w, "latchkey sold each of the %d bottles once.\n", locked.Sold)
	fmt.Fprintf(w, "One shop (%s) was killed holding the lock: the sale stood still for %s, then went on. The lease is %v.\n",
		locked.Killed, rounded(locked.Pause), lease)
	if mutex.Oversold() > 0 {
		fmt.Fprintf(w, "The in-process mutex oversells too: it holds inside one process, and there are %d of them.\n",
			mutex.Sale.Shops)
	}
	return 0
}

// Failures says, a line for each, why this run is no proof that latchkey keeps a sale in order.
func (r Report) Failures() (lines []string) {
	fail := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }

	if unlocked := r.of(NoLock); unlocked.Oversold() == 0 {
		fail("nothing was oversold without a lock, so this run proves nothing about having one.")
	}
	locked := r.of(Latchkey)
	switch {
	case locked.Oversold() > 0:
		fail("latchkey sold %d of %d bottles: %d too many.", locked.Sold, locked.Sale.Bottles, locked.Oversold())
	case locked.Sold < locked.Sale.Bottles:
		fail("latchkey sold %d of %d bottles, though there were buyers left.", locked.Sold, locked.Sale.Bottles)
	case locked.Left != 0:
		fail("latchkey sold every bottle, but the stock says that %d are left.", locked.Left)
	}
	if locked.Killed == "" {
		fail("latchkey's sale was over before a shop could be killed in it, so this run proves nothing about crashes.")
	}
	return lines
}

func (r Report) of(guard Guard) Result {
	for _, result := range r {
		if result.Guard == guard {
			return result
		}
	}
	return Result{}
}

// rounded shows a duration as a reader wants it in a table.
func rounded(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
