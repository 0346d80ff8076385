package locktest

import (
	"time"

	"github.com/latchkey-go/latchkey"
)

var leaseChecks = []check{
	{name: "a lease ends, and not early", run: func(p *prober) error {
		for _, fast := range []bool{true, false} {
			key, a := p.key(map[bool]string{true: "fast", false: "slow"}[fast]), p.owner("A")
			op := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: a, Lease: short, Fast: fast}
			asked := time.Now()
			p.want(true, p.do(p.a, op), "that is free")
			p.until("the lease has ended", func() bool { return p.acquire(p.b, key, p.owner("B"), long).OK })
			if held := time.Since(asked); held < short-slack {
				failf("a lease of %v ended after %v", short, held)
			}
			p.want(false, p.renew(p.a, key, a, long), "whose lease has ended")
		}
		return nil
	}},
	{name: "a lease that has ended is not the owner's", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.until("the lease has ended", func() bool {
			op := p.acquire(p.b, key, p.owner("B"), time.Millisecond)
			return op.OK
		})
		p.until("the next lease has ended too", func() bool {
			op := p.acquire(p.b, key, p.owner("C"), time.Millisecond)
			return op.OK
		})
		p.want(false, p.renew(p.a, key, a, long), "whose lease has ended")
		p.want(false, p.release(p.a, key, a), "whose lease has ended")
		return nil
	}},
	{name: "a lease of a millisecond ends", run: func(p *prober) error {
		key := p.key("k")
		p.want(true, p.acquire(p.a, key, p.owner("A"), time.Millisecond), "that is free")
		p.until("the lease has ended", func() bool { return p.acquire(p.b, key, p.owner("B"), long).OK })
		return nil
	}},
	{name: "a fraction of a millisecond is rounded up", run: func(p *prober) error {
		ask := map[string]func(key, owner string, lease time.Duration) latchkey.Op{
			"fast": func(key, owner string, lease time.Duration) latchkey.Op {
				return p.do(p.a, latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: owner, Lease: lease, Fast: true})
			},
			"slow": func(key, owner string, lease time.Duration) latchkey.Op { return p.acquire(p.a, key, owner, lease) },
			"renewed": func(key, owner string, lease time.Duration) latchkey.Op {
				p.want(true, p.acquire(p.a, key, owner, long), "that is free")
				return p.renew(p.a, key, owner, lease)
			},
		}
		for _, lease := range []time.Duration{500 * time.Microsecond, 1500 * time.Microsecond} {
			for name, take := range ask {
				key := p.key(name + lease.String())
				for range 5 {
					asked := time.Now()
					p.want(true, take(key, p.owner("A"), lease), "for "+lease.String())
					p.soon("the lease has ended", func() bool { return p.acquire(p.b, key, p.owner("B"), long).OK })
					if held := time.Since(asked); held < lease {
						failf("%s: a lease of %v ended after %v", name, lease, held)
					}
					p.want(true, p.release(p.b, key, p.owner("B")), "by its owner")
				}
			}
		}
		return nil
	}},
	{name: "renewal counts from now", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.want(true, p.renew(p.a, key, a, long), "by its owner")
		op := p.want(false, p.acquire(p.b, key, p.owner("B"), long), "that was renewed")
		if op.Remaining != 0 && op.Remaining < long/2 {
			failf("%v are left after a renewal for %v", op.Remaining, long)
		}
		p.want(true, p.renew(p.a, key, a, short), "for a shorter time")
		p.until("the shorter lease has ended", func() bool { return p.acquire(p.b, key, p.owner("B"), long).OK })
		return nil
	}},
	{name: "asking again renews", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.want(true, p.acquire(p.a, key, a, long), "by its owner again")
		asked := time.Now()
		for time.Since(asked) < 2*short {
			p.want(false, p.acquire(p.b, key, p.owner("B"), long), "whose lease was renewed")
			<-time.After(short / 4)
		}
		return nil
	}},
}
