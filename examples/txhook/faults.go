package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/examples/internal/child"
)

// What is said between the parent and a teller.
const (
	sayInside = "inside" // from a teller, with the counter: a holder has read and waits
	sayGoOn   = "go on"  // to the teller: now write
	sayFenced = "fenced" // from a teller: somebody was fenced off
)

// Faults is a teller's end: where its holders wait for what is done to them.
type Faults struct {
	wanted bool
	out    io.Writer
	one    sync.Mutex // a process has one fault at a time
	goOn   chan struct{}
}

func newFaults(out io.Writer, wanted bool) *Faults {
	return &Faults{wanted: wanted, out: out, goOn: make(chan struct{})}
}

// Point tells the parent, now and then, that a holder is inside, and returns when the parent has done its worst.
func (f *Faults) Point(id string) {
	if !f.wanted || rand.IntN(3) > 0 || !f.one.TryLock() {
		return
	}
	defer f.one.Unlock()
	fmt.Fprintln(f.out, sayInside, id)
	<-f.goOn
}

// Fenced tells the parent that somebody was fenced off.
func (f *Faults) Fenced() { fmt.Fprintln(f.out, sayFenced) }

// Hear listens to the parent until it says something else than to go on.
func (f *Faults) Hear(lines *bufio.Scanner) {
	for lines.Scan() && lines.Text() == sayGoOn {
		f.goOn <- struct{}{}
	}
	close(f.goOn)
}

// deletionsPerStop is more than one, as not every deletion does harm: the holder's next renewal may come first.
const deletionsPerStop = 2

// Injector is the parent's end: it does to holders what no lock can prevent.
type Injector struct {
	rdb       redis.UniversalClient
	run       string
	lease     time.Duration
	mu        sync.Mutex
	stops     int
	deletions int
	fencedOff int
}

// Strike is called when a teller says that a holder is inside. Every third time it stops the whole process for longer than
// the lease (kill -STOP): nothing in it can renew, and it does not notice. Otherwise it deletes the lock in Redis
// behind the holder's back, as somebody's DEL does, or a failover to a replica that had not heard of the lock: the holder goes
// on believing in it until the next renewal, a third of the lease later at most.
func (i *Injector) Strike(ctx context.Context, teller *child.Process, id string) error {
	i.mu.Lock()
	stop := i.stops*deletionsPerStop <= i.deletions
	if stop {
		i.stops++
	} else {
		i.deletions++
	}
	i.mu.Unlock()
	if !stop {
		err := i.forget(ctx, i.run+":counter:"+id)
		teller.Say(sayGoOn)
		return err
	}
	if err := teller.Pause(); err != nil {
		return err
	}
	time.Sleep(i.lease * 3 / 2)
	teller.Say(sayGoOn)
	return teller.Resume()
}

// forget deletes a lock and returns when somebody else has got it, or the next renewal must have told its holder.
func (i *Injector) forget(ctx context.Context, lock string) error {
	ctx, cancel := context.WithTimeout(ctx, i.lease/3)
	defer cancel()
	if err := i.rdb.Del(ctx, lock).Err(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if n, err := i.rdb.Exists(ctx, lock).Result(); err != nil || n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(i.lease / 20) // who got it reads
	return nil
}

// Struck returns how often it has.
func (i *Injector) Struck() (stops, deletions int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stops, i.deletions
}

// Enough reports whether there were so many stops, and the deletions that go with them.
func (i *Injector) Enough(stops int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stops >= stops && i.deletions >= stops*deletionsPerStop
}

// Fenced is called when a teller says that somebody was fenced off.
func (i *Injector) Fenced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fencedOff++
}

// FencedOff returns how many were.
func (i *Injector) FencedOff() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fencedOff
}
