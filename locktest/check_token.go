package locktest

import "github.com/latchkey-go/latchkey"

func tokens(c latchkey.Capabilities) bool { return c.Tokens }

var tokenChecks = []check{
	{name: "tokens grow from holder to holder", needs: tokens, run: func(p *prober) error {
		key, last := p.key("k"), int64(0)
		for i := range 60 {
			view, owner := []latchkey.Store{p.a, p.b}[i%2], p.owner(string(rune('A'+i)))
			n := int64(i%5 + 1)
			if i%3 == 0 {
				n = 0
			}
			op := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: owner, Lease: long, Tokens: n}
			op = p.want(true, p.do(view, op), "that is free")
			if n > 0 {
				last = grown(last, op.Token, n)
			}
			op = p.want(true, p.do(view, latchkey.Op{Kind: latchkey.OpToken, Key: key, Owner: owner, Tokens: 2}), "by its owner")
			last = grown(last, op.Token, 2)
			p.want(true, p.release(view, key, owner), "by its owner")
		}
		return nil
	}},
	{name: "tokens grow though a lease ends", needs: tokens, run: func(p *prober) error {
		key := p.key("k")
		op := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: p.owner("A"), Lease: short, Tokens: 17}
		last := grown(0, p.want(true, p.do(p.a, op), "that is free").Token, 17)
		p.until("the lease has ended", func() bool {
			op.Owner = p.owner("B")
			next := p.do(p.b, op)
			if next.OK {
				grown(last, next.Token, 17)
			}
			return next.OK
		})
		return nil
	}},
	{name: "a token is above the number it was asked to be above", needs: tokens, run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		mint := latchkey.Op{Kind: latchkey.OpToken, Key: key, Owner: a, Tokens: 1}
		first := p.want(true, p.do(p.a, mint), "by its owner").Token
		mint.Above = first + 1_000_000_000_000
		far := grown(mint.Above, p.want(true, p.do(p.a, mint), "by its owner").Token, 1)
		mint.Above = first // already passed: changes nothing
		far = grown(far, p.want(true, p.do(p.b, mint), "by its owner").Token, 1)
		p.want(true, p.release(p.a, key, a), "by its owner")
		next := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: p.owner("B"), Lease: long, Tokens: 1}
		grown(far, p.want(true, p.do(p.b, next), "that is free").Token, 1)
		return nil
	}},
	{name: "tokens are for the owner", needs: tokens, run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		mint := latchkey.Op{Kind: latchkey.OpToken, Key: key, Owner: a, Tokens: 1}
		p.want(false, p.do(p.a, mint), "that nobody holds")
		p.free(key, "after a token was refused")
		p.want(true, p.acquire(p.a, key, p.owner("B"), long), "that is free")
		if op := p.want(false, p.do(p.a, mint), "that another one holds"); op.Token != 0 {
			failf("a refused request has token %d", op.Token)
		}
		return nil
	}},
}

// grown stops the check unless first is the first of n tokens above last, and returns the last of them.
func grown(last, first, n int64) int64 {
	if first <= last {
		failf("token %d after token %d: it must be larger", first, last)
	}
	return first + n - 1
}
