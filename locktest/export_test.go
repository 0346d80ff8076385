package locktest

import "time"

// SetLimit sets how long checks wait for what has to happen.
func SetLimit(d time.Duration) { limit = d }
