package locktest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/latchkey-go/latchkey"
)

var ownerChecks = []check{
	{name: "a free lock is taken", run: func(p *prober) error {
		for _, fast := range []bool{true, false} {
			key := p.key(map[bool]string{true: "fast", false: "slow"}[fast])
			op := p.do(p.a, latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: p.owner("A"), Lease: long, Fast: fast})
			p.want(true, op, "that is free")
		}
		return nil
	}},
	{name: "a held lock is refused", run: func(p *prober) error {
		key := p.key("k")
		p.want(true, p.acquire(p.a, key, p.owner("A"), long), "that is free")
		for _, view := range []latchkey.Store{p.a, p.b} {
			op := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: p.owner("B"), Lease: long, Fast: true}
			p.want(false, p.do(view, op), "fast, that another one holds")
			op.Fast = false
			op = p.want(false, p.do(view, op), "that another one holds")
			if op.Busy != key {
				failf("a refused acquire of %q says that %q was busy", key, op.Busy)
			}
			if op.Foreign {
				failf("a latchkey owner is said to be foreign")
			}
			if op.Remaining < 0 || op.Remaining > long {
				failf("%v are left of a lease of %v", op.Remaining, long)
			}
		}
		return nil
	}},
	{name: "of many at once at most one gets the lock", run: func(p *prober) error {
		for round := range 10 {
			key := p.key(string(rune('a' + round)))
			var won atomic.Int32
			var all sync.WaitGroup
			var failed atomic.Pointer[error]
			for i := range 20 {
				view := []latchkey.Store{p.a, p.b}[i%2]
				owner := p.owner("owner" + string(rune('A'+i)))
				all.Go(func() {
					op := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: owner, Lease: long, Fast: round%2 == 0 || i%3 == 0}
					view.Do(nowhere, []*latchkey.Op{&op})
					if op.Err != nil {
						failed.Store(&op.Err)
					}
					if op.OK {
						won.Add(1)
					}
				})
			}
			all.Wait()
			if err := failed.Load(); err != nil {
				return *err
			}
			if n := won.Load(); n > 1 {
				failf("of 20 owners %d got the same lock", n)
			}
			if won.Load() == 0 { // where many vote, many candidates may all lose
				p.until("one of many gets the lock", func() bool { return p.acquire(p.a, key, p.owner("next"), long).OK })
			}
		}
		return nil
	}},
	{name: "acquire is idempotent for one owner", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.want(true, p.acquire(p.a, key, a, long), "by its owner again")
		p.want(true, p.acquire(p.b, key, a, long), "by its owner again, through another connection")
		p.want(false, p.acquire(p.a, key, p.owner("B"), long), "by another one then")
		p.want(true, p.release(p.a, key, a), "once")
		p.free(key, "after one release")
		return nil
	}},
	{name: "release needs the owner", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(false, p.release(p.a, key, a), "that nobody holds")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		for _, other := range []string{p.owner("B"), a + "x", a[:len(a)-1], "", "*"} {
			p.want(false, p.release(p.b, key, other), "by another owner")
			p.want(false, p.leave(p.b, key, other, short), "by another owner")
			p.want(false, p.acquire(p.a, key, p.owner("C"), long), "after that")
		}
		p.want(true, p.release(p.b, key, a), "by its owner")
		p.free(key, "after the release")
		p.want(false, p.release(p.a, key, a), "for the second time")
		return nil
	}},
	{name: "renew needs the owner", run: func(p *prober) error {
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		p.want(false, p.renew(p.a, key, a, long), "that nobody holds")
		p.free(key, "after a renewal that was refused")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		for _, other := range []string{b, a + "x", a[:len(a)-1], ""} {
			p.want(false, p.renew(p.b, key, other, long), "by another owner")
		}
		p.want(true, p.renew(p.b, key, a, long), "by its owner")
		return nil
	}},
	{name: "an empty owner owns nothing", run: func(p *prober) error {
		free, held := p.key("free"), p.key("held")
		p.want(true, p.acquire(p.a, held, p.owner("A"), long), "that is free")
		kinds := []latchkey.OpKind{latchkey.OpAcquire, latchkey.OpRenew, latchkey.OpRelease}
		if p.a.Capabilities().Tokens {
			kinds = append(kinds, latchkey.OpToken)
		}
		for _, key := range []string{free, held} {
			for _, kind := range kinds {
				op := latchkey.Op{Kind: kind, Key: key, Lease: long, Tokens: 1}
				p.a.Do(nowhere, []*latchkey.Op{&op})
				if op.OK || op.Token != 0 {
					failf("%v %q by an owner that is empty: OK = %t, token %d", kind, key, op.OK, op.Token)
				}
				if kind == latchkey.OpAcquire != (op.Err != nil) || op.Err != nil && !op.Final {
					failf("%v %q by an owner that is empty: error %v, final %t; want one, for good, from an acquire only",
						kind, key, op.Err, op.Final)
				}
			}
		}
		p.free(free, "after an empty owner asked for it")
		p.want(true, p.renew(p.a, held, p.owner("A"), long), "by its owner")
		return nil
	}},
	{name: "renew after another holder is refused", run: func(p *prober) error {
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, key, a, short), "that is free")
		p.until("the lease has ended", func() bool { return p.acquire(p.b, key, b, long).OK })
		p.want(false, p.renew(p.a, key, a, long), "that has another holder")
		p.want(false, p.release(p.a, key, a), "that has another holder")
		p.want(true, p.release(p.b, key, b), "by the new holder")
		p.want(false, p.renew(p.a, key, a, long), "that had another holder")
		p.free(key, "after that")
		return nil
	}},
	{name: "keys are told apart", run: func(p *prober) error {
		keys := []string{
			"order-1", "order-12", "Order-1", "order-1 ", "order-?", "order-*", "ördér-1", "order-1:q", "order-1\\", `order-"1"`,
		}
		for i, k := range keys {
			p.want(true, p.acquire(p.a, p.key(k), p.owner(string(rune('A'+i))), long), "though others are held")
		}
		for i, k := range keys {
			p.want(true, p.release(p.b, p.key(k), p.owner(string(rune('A'+i)))), "by its owner")
		}
		return nil
	}},
	{name: "a refused acquire leaves nothing", run: func(p *prober) error {
		key, a := p.key("k"), p.owner("A")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		p.want(false, p.acquire(p.b, key, p.owner("B"), long), "that another one holds")
		p.want(true, p.release(p.a, key, a), "by its owner")
		p.free(key, "after an attempt that did not queue")
		return nil
	}},
}

var errEnded = errors.New("ended before it was sent")
