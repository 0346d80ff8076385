package locktest

import "github.com/latchkey-go/latchkey"

func proofs(c latchkey.Capabilities) bool { return c.Proofs }

var proofChecks = []check{
	{name: "a proof is of the present owner", needs: proofs, run: func(p *prober) error {
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		prove := func(owner string) latchkey.Op {
			return p.do(p.b, latchkey.Op{Kind: latchkey.OpProve, Key: key, Owner: owner})
		}
		p.want(false, prove(latchkey.Proof(a)), "that nobody holds")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		if op := p.want(true, prove(latchkey.Proof(a)), "of its owner"); op.Remaining <= long/2 || op.Remaining > long {
			failf("%v are left of a lease of %v", op.Remaining, long)
		}
		for _, other := range []string{latchkey.Proof(b), latchkey.Proof(a) + "0", latchkey.Proof(a)[1:], a, ""} {
			p.want(false, prove(other), "of somebody else, or no proof")
		}
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.want(false, prove(latchkey.Proof(a)), "of a former owner")
		return nil
	}},
	{name: "a proof is no owner", needs: proofs, run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		proof := latchkey.Proof(a)
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		for _, op := range []latchkey.Op{
			{Kind: latchkey.OpAcquire, Key: key, Owner: proof, Lease: 2 * long},
			{Kind: latchkey.OpAcquire, Key: key, Owner: p.owner("B"), Lease: 2 * long, Prev: proof},
			{Kind: latchkey.OpRenew, Key: key, Owner: proof, Lease: 2 * long},
			{Kind: latchkey.OpRelease, Key: key, Owner: proof},
		} {
			p.want(false, p.do(p.b, op), "to whoever has but the proof")
		}
		if p.b.Capabilities().Tokens {
			op := latchkey.Op{Kind: latchkey.OpToken, Key: key, Owner: proof, Tokens: 1}
			p.want(false, p.do(p.b, op), "to whoever has but the proof")
		}
		op := p.do(p.b, latchkey.Op{Kind: latchkey.OpProve, Key: key, Owner: proof})
		if p.want(true, op, "of its owner, still"); op.Remaining > long {
			failf("%v are left of a lease of %v: the proof has renewed it", op.Remaining, long)
		}
		return nil
	}},
	{name: "a proof ends with the lease", needs: proofs, run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.until("the lease has ended", func() bool {
			return !p.do(p.b, latchkey.Op{Kind: latchkey.OpProve, Key: key, Owner: latchkey.Proof(a)}).OK
		})
		p.free(key, "when its proof does not hold any more")
		return nil
	}},
}
