package latchkey

import "time"

// enderIdle is how long a goroutine that has ended a transaction stays for the next one.
const enderIdle = 50 * time.Millisecond

// enders are the goroutines that end transactions. A driver may be stuck in COMMIT, so that whoever waits for it has to be
// another goroutine than the one that is in it; a new one for each would have to grow its stack each time, which takes
// longer than to begin a transaction. They go when there is nothing to do.
type enders struct{ next chan func() }

func newEnders() enders { return enders{make(chan func())} }

// run runs f on one of the goroutines.
func (e enders) run(f func()) {
	select {
	case e.next <- f:
	default: // all are busy
		go e.serve(f)
	}
}

func (e enders) serve(f func()) {
	timer := time.NewTimer(enderIdle)
	defer timer.Stop()
	for {
		f()
		timer.Reset(enderIdle)
		select {
		case f = <-e.next:
		case <-timer.C:
			return
		}
	}
}
