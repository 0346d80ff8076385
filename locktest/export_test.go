package locktest

import "time"

// Flaws show by waiting in vain; with stores in memory a second of that will do.
func init() { limit = time.Second }
