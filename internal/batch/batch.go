// Package batch lets callers who come at the same moment share one trip.
//
// An item that finds nobody under way leaves at once. Items that come while trips are under way wait for the
// next one to leave and go together: the busier it gets, the larger the batches, with nothing to tune.
package batch

import (
	"runtime"
	"sync"
	"time"
)

const (
	// lanes is how many trips may be under way at once. Two keep the line busy while one answer is read.
	lanes = 2
	// most is how many items one trip carries.
	most = 512
)

// Batcher collects items into batches. Create it with New.
type Batcher[T any] struct {
	do    func([]T)
	stuck time.Duration
	run   func() // travel, bound once

	mu      sync.Mutex
	pending []T
	spare   []T
	running int
	left    time.Time // when the latest trip left
	relief  *time.Timer
}

// New returns a batcher that hands every item to do, which answers for itself. Trips that take longer than stuck no
// longer keep others from leaving.
func New[T any](do func([]T), stuck time.Duration) *Batcher[T] {
	b := &Batcher[T]{do: do, stuck: stuck}
	b.run = b.travel
	return b
}

// Add puts an item on the next trip. It does not wait.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	if b.pending == nil {
		b.pending, b.spare = b.spare, nil
	}
	b.pending = append(b.pending, item)
	start := b.running < lanes || time.Since(b.left) > b.stuck
	if start {
		b.start()
	} else if len(b.pending) == 1 {
		b.watch(b.stuck - time.Since(b.left))
	}
	b.mu.Unlock()
	if start {
		go b.run()
	}
}

// start notes a trip that is about to leave. It is called with the mutex.
func (b *Batcher[T]) start() {
	b.running++
	b.left = time.Now()
}

// watch has somebody look after the first item that waits: it is not left to those who come after it to find the lanes
// stuck. It is called with the mutex.
func (b *Batcher[T]) watch(in time.Duration) {
	if b.relief == nil {
		b.relief = time.AfterFunc(in, b.relieve)
		return
	}
	b.relief.Reset(in)
}

func (b *Batcher[T]) relieve() {
	b.mu.Lock()
	start := len(b.pending) > 0
	if start {
		if left := b.stuck - time.Since(b.left); left > 0 { // a trip has left since
			b.watch(left)
			start = false
		} else {
			b.start()
		}
	}
	b.mu.Unlock()
	if start {
		b.run()
	}
}

func (b *Batcher[T]) travel() {
	for {
		// Whoever is ready to run may still join this trip.
		runtime.Gosched()
		items := b.take()
		if items == nil {
			return
		}
		b.do(items)
		b.giveBack(items)
	}
}

func (b *Batcher[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		b.running--
		return nil
	}
	b.left = time.Now()
	items := b.pending
	if len(items) > most {
		b.pending = append([]T(nil), items[most:]...)
		return items[:most:most]
	}
	b.pending = nil
	return items
}

func (b *Batcher[T]) giveBack(items []T) {
	clear(items)
	b.mu.Lock()
	if b.spare == nil {
		b.spare = items[:0]
	}
	b.mu.Unlock()
}
