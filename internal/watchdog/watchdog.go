// Package watchdog keeps leases alive: one timer for all of them, one batch of renewals when the first is due.
//
// No goroutine runs between two beats, and none per lease. A beat never waits for a store: renewals run in a
// goroutine of their own, so a store that hangs delays no deadline.
package watchdog

import (
	"sync"
	"time"
)

// Item is one lease under watch. Its fields are set before Add and not changed while it is watched.
type Item struct {
	// Lease is how long the store keeps the hold after each renewal. Only ExtendFor changes it while it is watched.
	Lease time.Duration
	// Fixed leases are not renewed; they end.
	Fixed bool
	// Ref is whatever the owner of the item wants to find again.
	Ref any
	// Deadline is the local end of the lease.
	Deadline Deadline

	due        Reading // when to renew
	renewing   bool
	again      bool // RenewAll came while it was being renewed: the answer may be from before
	watched    bool
	prev, next *Item
}

// Dog watches items. Create it with New.
type Dog struct {
	renew   func([]*Item)
	expired func(*Item)

	mu     sync.Mutex
	first  *Item
	timer  *time.Timer
	wakeAt Reading // zero: the timer is not set
}

// New returns a dog that calls renew, in a goroutine of its own, for the items that are due together, and expired for
// each one whose deadline has passed. renew must answer each item with Extend, Retry or Remove. An expired item is
// no longer watched.
func New(renew func([]*Item), expired func(*Item)) *Dog {
	return &Dog{renew: renew, expired: expired}
}

// shortest is how long a renewal counts at least: leases that only run out, ever shorter, are not asked about ever more often.
const shortest = time.Millisecond

// End returns the local deadline of a lease that was asked for at sent: a hundredth earlier than the store's, for
// clocks that run at different speeds.
func End(sent Reading, lease time.Duration) Reading {
	return sent.Add(lease - lease/100)
}

// Add starts to watch an item whose lease was last asked for at sent.
func (d *Dog) Add(it *Item, sent Reading) {
	it.Deadline.Set(End(sent, it.Lease))
	d.AddUntil(it, sent.Add(it.Lease/3))
}

// AddUntil starts to watch an item whose Deadline is set already, to be renewed at due.
func (d *Dog) AddUntil(it *Item, due Reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	it.due, it.renewing, it.again, it.watched = due, false, false, true
	it.prev, it.next = nil, d.first
	if d.first != nil {
		d.first.prev = it
	}
	d.first = it
	d.schedule(it)
}

// Remove ends the watch. What a renewal that is under way will answer does not matter any more. It reports whether
// the item was watched.
func (d *Dog) Remove(it *Item) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	watched := it.watched
	d.unlink(it)
	return watched
}

// Extend notes that a renewal sent at sent succeeded.
func (d *Dog) Extend(it *Item, sent Reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !it.watched {
		return
	}
	it.Deadline.Set(End(sent, it.Lease))
	it.due, it.renewing = sent.Add(max(it.Lease/3, shortest)), false
	if it.again {
		it.due, it.again = Now(), false
	}
	d.schedule(it)
}

// Fix ends the renewals of an item: it is watched until its deadline, which one that is under way may still move.
func (d *Dog) Fix(it *Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	it.Fixed = true
}

// ExtendFor is Extend for a lease whose length is another one now.
func (d *Dog) ExtendFor(it *Item, sent Reading, lease time.Duration) {
	d.mu.Lock()
	it.Lease = lease
	d.mu.Unlock()
	d.Extend(it, sent)
}

// Retry notes that a renewal failed and asks for another one, soon.
func (d *Dog) Retry(it *Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !it.watched {
		return
	}
	pause := min(max(it.Lease/30, 5*time.Millisecond), time.Second)
	it.due, it.renewing, it.again = Now().Add(pause), false, false
	d.schedule(it)
}

// RenewAll makes every renewed item due at once, also one that is being renewed: once more then.
func (d *Dog) RenewAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := Now()
	for it := d.first; it != nil; it = it.next {
		it.due, it.again = now, it.renewing
		d.schedule(it)
	}
}

// Watched returns how many items are watched.
func (d *Dog) Watched() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for it := d.first; it != nil; it = it.next {
		n++
	}
	return n
}

func (d *Dog) unlink(it *Item) {
	if !it.watched {
		return
	}
	if it.prev == nil {
		d.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	}
	it.prev, it.next, it.watched = nil, nil, false
}

// look returns when the item needs a look.
func (it *Item) look() Reading {
	end := Reading{it.Deadline.mono.Load(), it.Deadline.wall.Load()}
	if it.Fixed || it.renewing {
		return end
	}
	return earlier(end, it.due)
}

// schedule sets the timer if the item needs a look before it would fire.
func (d *Dog) schedule(it *Item) {
	at := it.look()
	if !d.wakeAt.IsZero() && earlier(at, d.wakeAt) == d.wakeAt {
		return
	}
	d.setTimer(at, Now())
}

func (d *Dog) setTimer(at, now Reading) {
	d.wakeAt = at
	in := max(-now.Sub(at), 0)
	if d.timer == nil {
		d.timer = time.AfterFunc(in, d.beat)
		return
	}
	d.timer.Reset(in)
}

func (d *Dog) beat() {
	batch, gone := d.collect()
	if len(batch) > 0 {
		go d.renew(batch)
	}
	for _, it := range gone {
		d.expired(it)
	}
}

// collect takes what is due and what has expired, and sets the timer for the rest. When one item is due, those that
// would be within a sixth of their lease go along, so that leases fall into step and share a batch.
func (d *Dog) collect() (batch, gone []*Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wakeAt = Reading{}
	now := Now()

	due := false
	for it := d.first; it != nil; it = it.next {
		if !it.Fixed && !it.renewing && now.Sub(it.due) >= 0 {
			due = true
			break
		}
	}
	var next Reading
	for it := d.first; it != nil; {
		after := it.next
		switch {
		case it.Deadline.Passed(now):
			d.unlink(it)
			gone = append(gone, it)
			it = after
			continue
		case due && !it.Fixed && !it.renewing && now.Sub(it.due) >= -it.Lease/6:
			it.renewing = true
			batch = append(batch, it)
		}
		if at := it.look(); next.IsZero() || earlier(at, next) == at {
			next = at
		}
		it = after
	}
	if !next.IsZero() {
		d.setTimer(next, now)
	}
	return batch, gone
}
