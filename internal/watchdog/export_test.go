package watchdog

import "time"

// WallAhead returns the reading at which the wall clock went on by d and the monotonic one stood still.
func (r Reading) WallAhead(d time.Duration) Reading {
	return Reading{mono: r.mono, wall: r.wall + int64(d)}
}
