// Package batch lets callers who come at the same moment share one trip.
//
// An item that finds nobody under way leaves at once. Items that come while trips are under way wait for the
// next one to leave and go together: the busier it gets, the larger the batches, with nothing to tune.
//
// Trips are carried by goroutines that are kept for a moment when there is nothing to do; a fresh one would have to grow
// its stack on every trip. All items that wait or travel are looked at from time to time, so that callers can wait
// for nothing but the answer.
package batch

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// lanes is how many trips may be under way at once. Two keep the line busy while one answer is read.
	lanes = 2
	// most is how many items one trip carries.
	most = 512
	// lookEvery is the time between two looks at the items.
	lookEvery = 5 * time.Millisecond
	// idle is how long a carrier is kept without work.
	idle = 100 * time.Millisecond
)

// Batcher collects items into batches. Create it with New.
type Batcher[T any] struct {
	do    func([]T)
	look  func(T)
	stuck time.Duration
	work  func()        // carry, bound once
	wake  chan struct{} // to a parked carrier; closed and made anew to end them all

	mu       sync.Mutex
	pending  []T
	spare    []T
	carriers []*carrier[T]
	running  int // carriers on a trip, but for stuck ones that have been replaced
	parked   int
	left     time.Time // when the latest trip left
	clock    *time.Timer
	ticking  bool
	slow     bool // the clock is set for idle
}

type carrier[T any] struct{ items []T }

// New returns a batcher that hands every item to do, which answers for itself. A trip that takes longer than stuck
// no longer keeps a lane from others. look is called every few milliseconds for each item that waits or travels; it must
// not block.
func New[T any](do func([]T), look func(T), stuck time.Duration) *Batcher[T] {
	b := &Batcher[T]{do: do, look: look, stuck: stuck, wake: make(chan struct{}, lanes)}
	b.work = b.carry
	return b
}

// Add puts an item on the next trip. It does not wait.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	if b.pending == nil {
		b.pending, b.spare = b.spare, nil
	}
	b.pending = append(b.pending, item)
	fresh := b.depart()
	if !b.ticking || b.slow {
		b.tickIn(lookEvery)
	}
	b.mu.Unlock()
	if fresh {
		go b.work()
	}
}

// depart sends a carrier for what waits, if there is a lane for it. It reports whether the caller has to start one. It is
// called with the mutex.
func (b *Batcher[T]) depart() (fresh bool) {
	now := time.Now()
	if b.running >= lanes && now.Sub(b.left) <= b.stuck {
		return false
	}
	b.running++
	b.left = now
	if b.parked == 0 {
		return true
	}
	b.parked--
	b.wake <- struct{}{} // has room for every parked carrier
	return false
}

// carry takes trips until there has been none for a while.
func (b *Batcher[T]) carry() {
	self := &carrier[T]{}
	b.mu.Lock()
	b.carriers = append(b.carriers, self)
	wake := b.wake
	b.mu.Unlock()
	for last := 0; ; {
		if last > 1 {
			runtime.Gosched() // whoever is ready to run may still join this trip
		}
		parked := b.next(self)
		if last = len(self.items); last > 0 {
			b.do(self.items)
			continue
		}
		if !parked {
			return
		}
		if _, more := <-wake; !more {
			return
		}
	}
}

// next ends the carrier's trip and gives it the items of the next one. If there are none the carrier gives up its lane: it
// is parked then, or has to end.
func (b *Batcher[T]) next(c *carrier[T]) (parked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.items != nil {
		clear(c.items)
		if b.spare == nil {
			b.spare = c.items[:0]
		}
		c.items = nil
	}
	if len(b.pending) == 0 {
		b.running--
		if b.parked == lanes {
			b.forget(c)
			return false
		}
		b.parked++
		return true
	}
	b.left = time.Now()
	c.items, b.pending = b.pending, nil
	if len(c.items) > most {
		b.pending = slices.Clone(c.items[most:])
		c.items = c.items[:most:most]
	}
	return false
}

func (b *Batcher[T]) forget(c *carrier[T]) {
	b.carriers = slices.DeleteFunc(b.carriers, func(o *carrier[T]) bool { return o == c })
}

func (b *Batcher[T]) tickIn(d time.Duration) {
	b.ticking, b.slow = true, d == idle
	if b.clock == nil {
		b.clock = time.AfterFunc(d, b.tick)
		return
	}
	b.clock.Reset(d)
}

// tick looks at every item, and whether stuck ones are all that the others wait for; it is not left to later items to find
// that out. When there has been no item for a while it ends the carriers.
func (b *Batcher[T]) tick() {
	items, fresh := b.live()
	if fresh {
		go b.work()
	}
	for _, item := range items {
		b.look(item)
	}
}

func (b *Batcher[T]) live() (items []T, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items = slices.Clone(b.pending)
	if len(items) > 0 {
		fresh = b.depart()
	}
	for _, c := range b.carriers {
		items = append(items, c.items...)
	}
	switch {
	case len(items) > 0:
		b.tickIn(lookEvery)
	case !b.slow:
		b.tickIn(idle)
	case time.Since(b.left) < idle:
		b.tickIn(idle)
	default:
		close(b.wake)
		b.wake = make(chan struct{}, lanes)
		b.carriers, b.parked, b.ticking = nil, 0, false
	}
	return items, fresh
}
