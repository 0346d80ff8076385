package locktest

import "github.com/latchkey-go/latchkey"

func bars(c latchkey.Capabilities) bool     { return c.Bars }
func barsPush(c latchkey.Capabilities) bool { return c.Bars && c.Push }
func barsMany(c latchkey.Capabilities) bool { return c.Bars && c.ManyKeys }

var barChecks = []check{
	{name: "the lock of a barred owner is taken over", needs: bars, run: func(p *prober) error {
		key, late := p.key("k"), p.owner("late")
		p.want(false, p.bar(p.a, key, late, short), "that nobody holds")
		// A late copy of the cheapest request may get through: it is not expected to look for more than a free key.
		p.do(p.a, latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: late, Lease: long, Fast: true})
		p.want(true, p.acquire(p.b, key, p.owner("B"), long), "that only a barred owner could hold")
		p.want(false, p.acquire(p.a, key, p.owner("C"), long), "that was taken over")
		p.want(false, p.release(p.a, key, late), "by the barred owner")
		p.want(true, p.release(p.b, key, p.owner("B")), "by its owner")
		return nil
	}},
	{name: "a barred owner is refused", needs: bars, run: func(p *prober) error {
		key, late, a := p.key("k"), p.owner("late"), p.owner("A")
		p.want(true, p.acquire(p.a, key, late, long), "that is free")
		p.want(true, p.bar(p.a, key, late, short), "by its owner")
		p.want(false, p.acquire(p.a, key, late, long), "by a barred owner")
		p.free(key, "after a barred owner asked for it")
		p.want(true, p.acquire(p.a, p.key("other"), late, long), "from which it is not barred")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.acquire(p.a, key, late, long), "by a barred owner")
		p.want(true, p.renew(p.a, key, a, long), "by its owner")
		return nil
	}},
	{name: "a barred owner has no place in the queue", needs: barsPush, run: func(p *prober) error {
		p.listen(p.a)
		key, late, a := p.key("k"), p.owner("late"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.queue(p.a, key, late, long), "that another one holds")
		p.bar(p.a, key, late, long)
		p.want(false, p.queue(p.a, key, late, long), "by a barred owner")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.free(key, "with nobody but a barred owner in the queue")
		return nil
	}},
	{name: "many keys: a barred owner is refused", needs: barsMany, run: func(p *prober) error {
		keys, late, b := []string{p.key("1"), p.key("2")}, p.owner("late"), p.owner("B")
		for _, k := range keys {
			p.bar(p.a, k, late, long)
		}
		many := latchkey.Op{Kind: latchkey.OpAcquire, Key: keys[0], More: keys[1:], Owner: late, Lease: long}
		p.want(false, p.do(p.a, many), "with others, by a barred owner")
		for _, k := range keys {
			p.do(p.a, latchkey.Op{Kind: latchkey.OpAcquire, Key: k, Owner: late, Lease: long, Fast: true})
		}
		many.Owner = b
		p.want(true, p.do(p.a, many), "with others, that only a barred owner could hold")
		return nil
	}},
}
