package latchkey

import (
	"sync"
	"time"
)

// gate lets statements through until the transaction ends, and tells the end when the last one is out: no statement
// may run beside COMMIT, or after it on the connection.
type gate struct {
	mu     sync.Mutex
	inside int
	err    error         // why nobody gets in any more
	empty  chan struct{} // made by close, closed when the last one has left
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	g.inside++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// shut lets nobody in any more.
func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// drain shuts the gate and reports whether everybody has left within limit.
func (g *gate) drain(err error, limit time.Duration) bool {
	g.mu.Lock()
	g.err = err
	if g.inside == 0 {
		g.mu.Unlock()
		return true
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-empty:
		return true
	case <-timer.C:
		return false
	}
}
