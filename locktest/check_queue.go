package locktest

import (
	"time"

	"github.com/latchkey-go/latchkey"
)

func push(c latchkey.Capabilities) bool { return c.Push }

var queueChecks = []check{
	{name: "a release hands the lock to the first in the queue and tells it", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		p.listen(p.b)
		key, a, b, c := p.key("k"), p.owner("A"), p.owner("B"), p.owner("C")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		first := p.want(false, p.queue(p.b, key, b, long), "that another one holds")
		p.want(false, p.queue(p.a, key, c, long), "that another one holds")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.want(false, p.acquire(p.a, key, p.owner("barger"), long), "that was handed over")
		if got := p.hear(p.b, b); got.Ticket != first.Ticket {
			failf("a Push has ticket %d; its owner was given %d", got.Ticket, first.Ticket)
		}
		p.want(false, p.queue(p.a, key, c, long), "that was handed to another one")
		p.want(true, p.queue(p.b, key, b, long), "by the one it was handed to")
		p.want(true, p.release(p.b, key, b), "by the one it was handed to")
		p.hear(p.a, c)
		p.want(true, p.acquire(p.a, key, c, long), "by the second in the queue")
		p.want(true, p.release(p.a, key, c), "by the second in the queue")
		p.free(key, "when the queue is empty")
		return nil
	}},
	{name: "a ticket stands for one place", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a, b, c := p.key("k"), p.owner("A"), p.owner("B"), p.owner("C")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		one := p.queue(p.a, key, b, short).Ticket
		other := p.queue(p.a, key, c, short).Ticket
		if one == 0 || other == 0 || one == other {
			failf("two places in a queue have tickets %d and %d; want two that differ from each other and from 0", one, other)
		}
		if again := p.queue(p.a, key, b, short).Ticket; again != one {
			failf("the ticket of a place that was kept changed from %d to %d", one, again)
		}
		p.leave(p.a, key, b, short)
		if again := p.queue(p.a, key, b, short).Ticket; again == one || again == other {
			failf("an owner that left and joined anew has ticket %d; the tickets before were %d and %d", again, one, other)
		}
		// A grant that ran out unanswered must not be taken for the next one.
		p.leave(p.a, key, b, short)
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.until("the grant has run out", func() bool { return p.acquire(p.a, key, a, long).OK })
		if again := p.queue(p.a, key, c, short).Ticket; again == other {
			failf("an owner whose grant ran out joined anew and has its old ticket %d", again)
		}
		return nil
	}},
	{name: "a grant ends when nobody answers", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.a, key, p.owner("dead"), short), "that another one holds")
		asked := time.Now()
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.until("a dead waiter's grant has ended", func() bool { return p.acquire(p.b, key, p.owner("B"), long).OK })
		if held := time.Since(asked); held < short-slack {
			failf("a grant of %v ended after %v", short, held)
		}
		return nil
	}},
	{name: "who leaves gives up its place and its grant", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a, b := p.key("place"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.a, key, b, long), "that another one holds")
		p.want(false, p.leave(p.a, key, b, long), "that the one who leaves does not hold")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.free(key, "after the only waiter has left")

		key = p.key("grant")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.a, key, b, long), "that another one holds")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.want(true, p.leave(p.a, key, b, long), "that was handed to the one who leaves")
		p.free(key, "after the one it was handed to has left")
		return nil
	}},
	{name: "who leaves with the lock hands it on", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a, b, c := p.key("k"), p.owner("A"), p.owner("B"), p.owner("C")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.a, key, b, long), "that another one holds")
		p.want(false, p.queue(p.a, key, c, long), "that another one holds")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.want(true, p.leave(p.a, key, b, long), "that was handed to the one who leaves")
		p.hear(p.a, c)
		p.want(true, p.acquire(p.a, key, c, long), "by the next in the queue")
		return nil
	}},
	{name: "letting go in favour of a newcomer asks the queue first", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a, b, c := p.key("k"), p.owner("A"), p.owner("B"), p.owner("C")
		after := func(prev, owner string) latchkey.Op {
			return p.do(p.a, latchkey.Op{
				Kind: latchkey.OpAcquire, Key: key, Owner: owner, Prev: prev, Lease: long, Queue: true, Grant: long,
			})
		}
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, after(p.owner("stranger"), b), "after one who does not hold it")
		p.want(false, after(a, c), "with somebody in the queue")
		p.hear(p.a, b)
		p.want(true, p.acquire(p.a, key, b, long), "by the first in the queue")
		p.leave(p.a, key, c, long)
		p.want(true, after(b, c), "with nobody in the queue")
		p.want(false, p.release(p.a, key, b), "that was let go before")
		p.want(true, p.release(p.a, key, c), "by its owner")
		return nil
	}},
	{name: "who gets a free lock leaves its place", needs: push, run: func(p *prober) error {
		p.listen(p.a)
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.until("the lease has ended", func() bool { return p.queue(p.a, key, b, long).OK })
		p.want(true, p.release(p.a, key, b), "by its owner")
		p.free(key, "after the only one who had a place got the lock and released it")
		return nil
	}},
	{name: "who stops listening hears nothing", needs: push, run: func(p *prober) error {
		stop := p.listen(p.a)
		p.listen(p.b)
		stop()
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.b, key, b, long), "that another one holds")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.hear(p.b, b)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, h := range p.pushes {
			if p.a != p.b && h.view == p.a {
				failf("a Push was heard after stop")
			}
		}
		return nil
	}},
}
