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
