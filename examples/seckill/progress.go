package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// showProgress says how a round is going: one line that is written over on a terminal, else a new line now and then.
// The function it returns ends that.
func showProgress(w io.Writer, guard Guard, sale Sale, crowd *Crowd) (hide func()) {
	every, format := time.Second, "%s\n"
	if isTerminal(w) {
		every, format = 100*time.Millisecond, "\r%-76s"
	}
	line := func() {
		text := fmt.Sprintf("%-17s %5d of %d bottles sold, %d of %d buyers served, %d of %d shops open", guard+":",
			crowd.sales.Count(), sale.Bottles, crowd.served.Load(), sale.Buyers, crowd.street.Open(), sale.Shops)
		fmt.Fprintf(w, format, text)
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				line()
			case <-done:
				line()
				if isTerminal(w) {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
