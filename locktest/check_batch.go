package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
)

var nowhere = context.Background()

var batchChecks = []check{
	{name: "a batch answers each operation for itself", run: func(p *prober) error {
		held, a, b := p.key("held"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, held, a, long), "that is free")
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(errEnded)
		ops := []*latchkey.Op{
			{Kind: latchkey.OpAcquire, Key: p.key("1"), Owner: b, Lease: long, Fast: true},
			{Kind: latchkey.OpAcquire, Key: held, Owner: b, Lease: long},
			{Kind: latchkey.OpAcquire, Key: p.key("2"), Owner: b, Lease: long, Ctx: ended},
			{Kind: latchkey.OpRelease, Key: p.key("3"), Owner: b},
			{Kind: latchkey.OpRenew, Key: held, Owner: a, Lease: long},
			{Kind: latchkey.OpAcquire, Key: p.key("4"), Owner: b, Lease: long},
		}
		want := []bool{true, false, false, false, true, true}
		p.a.Do(nowhere, ops)
		for i, op := range ops {
			if i == 2 {
				continue
			}
			if op.Err != nil {
				return fmt.Errorf("operation %d of a batch: %w", i+1, op.Err)
			}
			p.want(want[i], *op, "in a batch")
		}
		if op := ops[2]; op.OK || !errors.Is(op.Err, errEnded) {
			failf("an operation whose context had ended before: OK = %t, error %v; want the context's cause", op.OK, op.Err)
		}
		p.free(p.key("2"), "after an acquire whose context had ended before")
		return nil
	}},
	{name: "an answer replaces an older one", run: func(p *prober) error {
		key, a, b := p.key("k"), p.owner("A"), p.owner("B")
		p.want(true, p.acquire(p.a, key, a, long), "that is free")
		old := latchkey.Op{Kind: latchkey.OpAcquire, Key: key, Owner: b, Lease: long}
		old.OK, old.Token, old.Ticket, old.Foreign, old.Err = true, 7, 7, true, errEnded
		op := p.want(false, p.do(p.a, old), "asked with an Op that has an answer already")
		if op.Token != 0 || op.Foreign || op.Ticket != 0 {
			failf("the answer has left-overs of an older one: %+v", op)
		}
		return nil
	}},
	{name: "the deadline of Do bounds it", run: func(p *prober) error {
		if p.a.Capabilities().Instant {
			return nil
		}
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer cancel()
		op := latchkey.Op{Kind: latchkey.OpAcquire, Key: p.key("k"), Owner: p.owner("A"), Lease: time.Millisecond}
		begin := time.Now()
		p.a.Do(ctx, []*latchkey.Op{&op})
		if took := time.Since(begin); took > limit/2 {
			failf("Do took %v, though its context's deadline had passed before", took)
		}
		return nil
	}},
}
