package watchdog

import (
	"sync/atomic"
	"time"
)

var base = time.Now()

// Reading is one look at two clocks, so that the answer to how much of a lease is left is never too long. The monotonic
// clock cannot be set, but on Linux it stands still while a machine sleeps; the wall clock runs on, but can be set. Of
// two answers the less favourable counts: a sleeping laptop, a stopped virtual machine and a clock set forward all
// end a lease early rather than late.
// The zero Reading is in the far past.
type Reading struct{ mono, wall int64 }

// Now reads both clocks.
func Now() Reading {
	now := time.Now()
	return Reading{mono: int64(now.Sub(base)), wall: now.UnixNano()}
}

// Add returns the reading that is d later.
func (r Reading) Add(d time.Duration) Reading {
	return Reading{mono: r.mono + int64(d), wall: r.wall + int64(d)}
}

// Sub returns how much time passed from the earlier reading to r, by the clock that went further.
func (r Reading) Sub(earlier Reading) time.Duration {
	return time.Duration(max(r.mono-earlier.mono, r.wall-earlier.wall))
}

// earlier returns the one of two points in time that comes first.
func earlier(a, b Reading) Reading {
	if a.mono <= b.mono {
		return a
	}
	return b
}

// IsZero reports whether r was never read.
func (r Reading) IsZero() bool { return r == Reading{} }

// Deadline is a point in time that one goroutine moves and others look at. The zero Deadline has passed.
type Deadline struct{ mono, wall atomic.Int64 }

// Set moves the deadline.
func (d *Deadline) Set(at Reading) {
	d.wall.Store(at.wall)
	d.mono.Store(at.mono)
}

// Left returns how much time is left at now, by the clock that leaves less; it is negative once the deadline has
// passed.
func (d *Deadline) Left(now Reading) time.Duration {
	return time.Duration(min(d.mono.Load()-now.mono, d.wall.Load()-now.wall))
}

// Passed reports whether the deadline has passed at now.
func (d *Deadline) Passed(now Reading) bool { return d.Left(now) <= 0 }
