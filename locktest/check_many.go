package locktest

import "github.com/latchkey-go/latchkey"

func manyKeys(c latchkey.Capabilities) bool { return c.ManyKeys }

var manyChecks = []check{
	{name: "many keys: all or none", needs: manyKeys, run: func(p *prober) error {
		keys, a, b := []string{p.key("1"), p.key("2"), p.key("3")}, p.owner("A"), p.owner("B")
		many := latchkey.Op{Kind: latchkey.OpAcquire, Key: keys[0], More: keys[1:], Owner: b, Lease: long}
		for i, held := range keys {
			p.want(true, p.acquire(p.a, held, a, long), "that is free")
			op := p.want(false, p.do(p.b, many), "with others, of which one is held")
			if op.Busy != held {
				failf("of three keys %q is held, but the answer says %q", held, op.Busy)
			}
			for j, k := range keys {
				if j != i {
					p.free(k, "after a refused acquire of several")
				}
			}
			p.want(true, p.release(p.a, held, a), "by its owner")
		}
		p.want(true, p.do(p.b, many), "with others, all free")
		p.want(true, p.do(p.a, many), "with others, by their owner again")
		for _, k := range keys {
			p.want(false, p.acquire(p.a, k, a, long), "that was taken with others")
			p.want(true, p.renew(p.a, k, b, long), "that was taken with others")
			p.want(true, p.release(p.a, k, b), "that was taken with others")
			p.free(k, "after its release")
		}
		return nil
	}},
	{name: "many keys: each has a lease", needs: manyKeys, run: func(p *prober) error {
		keys := []string{p.key("1"), p.key("2"), p.key("3")}
		p.want(true, p.do(p.a, latchkey.Op{
			Kind: latchkey.OpAcquire, Key: keys[0], More: keys[1:], Owner: p.owner("A"), Lease: short,
		}), "with others, all free")
		for _, k := range keys {
			p.until("the lease has ended", func() bool { return p.acquire(p.b, k, p.owner("B"), long).OK })
		}
		return nil
	}},
}
