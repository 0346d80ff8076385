package locktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
)

const (
	long  = time.Minute            // a lease that does not end during a check
	short = 120 * time.Millisecond // a lease whose end a check waits for
	slack = 2 * time.Millisecond   // servers count milliseconds
)

// limit is how long a check waits for something that has to happen.
var limit = 5 * time.Second

// prober asks a store through two views of it.
type prober struct {
	a, b latchkey.Store
	id   string

	mu     sync.Mutex
	pushes []heardPush
	news   chan struct{}
	stops  []func()
}

type heardPush struct {
	view latchkey.Store
	push latchkey.Push
}

// stopped ends a check that can't go on.
type stopped struct{ err error }

func newProber(a, b latchkey.Store) *prober {
	return &prober{a: a, b: b, id: rand.Text()[:10], news: make(chan struct{})}
}

func (p *prober) close() {
	for _, stop := range p.stops {
		stop()
	}
}

// key returns a key of this check's own.
func (p *prober) key(name string) string { return "locktest:" + p.id + ":" + name }

// owner returns an owner like those that Locks makes.
func (p *prober) owner(name string) string { return latchkey.OwnerPrefix + p.id + name }

func failf(format string, args ...any) { panic(stopped{fmt.Errorf(format, args...)}) }

// do asks for one operation and insists on an answer.
func (p *prober) do(s latchkey.Store, op latchkey.Op) latchkey.Op {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.Do(ctx, []*latchkey.Op{&op})
	if op.Err != nil {
		failf("%v %q: %w", op.Kind, op.Key, op.Err)
	}
	return op
}

func (p *prober) acquire(s latchkey.Store, key, owner string, lease time.Duration) latchkey.Op {
	return p.do(s, latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: owner, Lease: lease})
}

// queue asks for a lock and for a place in its queue.
func (p *prober) queue(s latchkey.Store, key, owner string, grant time.Duration) latchkey.Op {
	return p.do(s, latchkey.Op{
		Kind: latchkey.OpAcquire, Key: key, Owner: owner, Lease: long, Queue: true, Grant: grant,
	})
}

func (p *prober) renew(s latchkey.Store, key, owner string, lease time.Duration) latchkey.Op {
	return p.do(s, latchkey.Op{Kind: latchkey.OpRenew, Key: key, Owner: owner, Lease: lease})
}

func (p *prober) release(s latchkey.Store, key, owner string) latchkey.Op {
	return p.do(s, latchkey.Op{Kind: latchkey.OpRelease, Key: key, Owner: owner})
}

func (p *prober) leave(s latchkey.Store, key, owner string, grant time.Duration) latchkey.Op {
	return p.do(s, latchkey.Op{Kind: latchkey.OpRelease, Key: key, Owner: owner, Leave: true, Grant: grant})
}

func (p *prober) bar(s latchkey.Store, key, owner string, grant time.Duration) latchkey.Op {
	return p.do(s, latchkey.Op{
		Kind: latchkey.OpRelease, Key: key, Owner: owner, Leave: true, Grant: grant, Bar: long,
	})
}

// want stops the check if an operation was answered otherwise.
func (p *prober) want(ok bool, op latchkey.Op, when string) latchkey.Op {
	if op.OK != ok {
		answer := map[bool]string{true: "yes", false: "no"}
		failf("%v %q %s: the answer is %s, want %s", op.Kind, op.Key, when, answer[op.OK], answer[ok])
	}
	return op
}

// free stops the check unless the key is free: somebody new gets it at once, and lets it go again.
func (p *prober) free(key, when string) {
	probe := p.owner("probe")
	for _, fast := range []bool{true, false} {
		op := p.do(p.b, latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: probe, Lease: long, Fast: fast})
		p.want(true, op, "by somebody new, "+when)
		p.want(true, p.release(p.b, key, probe), "by that one")
	}
}

// until repeats an attempt until it succeeds.
func (p *prober) until(what string, attempt func() bool) { p.every(5*time.Millisecond, what, attempt) }

// soon is until, for what comes within milliseconds.
func (p *prober) soon(what string, attempt func() bool) { p.every(50*time.Microsecond, what, attempt) }

func (p *prober) every(pause time.Duration, what string, attempt func() bool) {
	for end := time.Now().Add(limit); !attempt(); {
		if time.Now().After(end) {
			failf("after %v still not: %s", limit, what)
		}
		<-time.After(pause)
	}
}

// listen takes down the pushes that reach a view.
func (p *prober) listen(s latchkey.Store) (stop func()) {
	stop = s.Listen(func(push latchkey.Push) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pushes = append(p.pushes, heardPush{s, push})
		close(p.news)
		p.news = make(chan struct{})
	})
	stop = sync.OnceFunc(stop)
	p.stops = append(p.stops, stop)
	return stop
}

// hear waits for the push to an owner that a view gets, and returns it.
func (p *prober) hear(view latchkey.Store, owner string) latchkey.Push {
	late := time.After(limit)
	for {
		p.mu.Lock()
		news := p.news
		for _, h := range p.pushes {
			if h.view == view && h.push.Owner == owner {
				p.mu.Unlock()
				return h.push
			}
		}
		p.mu.Unlock()
		select {
		case <-news:
		case <-late:
			failf("the lock was handed to the first in the queue, but after %v no Push has said so", limit)
		}
	}
}
