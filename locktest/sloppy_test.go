package locktest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
)

// The ways in which a sloppy store is wrong. Each is a fault that some lock library had.
const (
	none                  = ""
	releaseByAnyone       = "release forgets the owner check"
	releaseByPrefix       = "release compares a prefix of the owner"
	renewByAnyone         = "renew forgets the owner check"
	renewTakesFree        = "renew takes a lock that is free"
	forgetsExpiry         = "leases never end"
	endsEarly             = "leases end early"
	forgetsShortExpiry    = "a lease of a millisecond has no end"
	cutsFractions         = "a fraction of a millisecond is cut off"
	losesFractions        = "a lease of less than a millisecond has no end"
	emptyHoldsFree        = "a free lock counts as an empty owner's"
	emptyTakes            = "an empty owner gets a lock"
	emptyHoldsAll         = "an empty owner is not compared"
	doubleGrant           = "a fast acquire looks and takes in two steps"
	refusesOwner          = "acquire refuses its own owner"
	keepsOldLease         = "asking again does not renew"
	losesWakeup           = "a hand-over is told to nobody"
	wakesOnlyItself       = "a hand-over is told only to the process that let go"
	tokenGoesBack         = "tokens start anew with each holder"
	tokenBlockOverlaps    = "a block of tokens counts as one"
	tokenNotAbove         = "a token ignores what it has to be above"
	tokenForAnyone        = "tokens are minted for those who hold nothing"
	ticketReused          = "a ticket is used again"
	ticketChanges         = "a ticket changes while the place is kept"
	halfTaken             = "many keys are taken one by one and not rolled back"
	manyWithoutLease      = "only the first of many keys has a lease"
	lastInFirstOut        = "the last in the queue is first"
	keepsPlace            = "who leaves stays in the queue"
	placeForEverybody     = "who does not want to queue is queued"
	grantWithoutEnd       = "a lock that was handed over has no end"
	foldsKeys             = "keys are compared without regard to case"
	ignoresContext        = "an operation whose context has ended is carried out"
	leftovers             = "an answer keeps fields of the one before"
	oneFailsAll           = "one refused operation refuses the rest of the batch"
	prevByAnyone          = "an acquire lets go of a lock that is not its predecessor's"
	barIgnored            = "barred owners are let in"
	barQueued             = "barred owners get a place in the queue"
	barNotTakenOver       = "the lock of a barred owner is not taken over"
	proofByAnyone         = "anything passes for a proof"
	proofIsOwner          = "a proof does what an owner does"
	proofOfThePast        = "a proof holds though the lease has ended"
	keepsPlaceWhenGranted = "who gets a free lock stays in the queue"
)

var errNobody = errors.New("the owner is empty")

// sloppy is a store of the simplest kind, with one flaw.
type sloppy struct {
	flaw string

	mu     sync.Mutex
	locks  map[string]*sloppyLock
	bars   map[string]bool
	token  int64
	ticket int64
	heard  map[*func(latchkey.Push)]*sloppyView
}

type sloppyLock struct {
	owner string
	end   time.Time
	queue []sloppyWaiter
}

type sloppyWaiter struct {
	owner  string
	grant  time.Duration
	ticket int64
}

// sloppyView is the store as one process has it.
type sloppyView struct{ *sloppy }

func newSloppy(flaw string) (a, b latchkey.Store) {
	s := &sloppy{
		flaw: flaw, locks: make(map[string]*sloppyLock), bars: make(map[string]bool), token: 1000,
		heard: make(map[*func(latchkey.Push)]*sloppyView),
	}
	return &sloppyView{s}, &sloppyView{s}
}

func (v *sloppyView) Capabilities() latchkey.Capabilities {
	return latchkey.Capabilities{Push: true, Tokens: true, ManyKeys: true, Bars: true, Proofs: true}
}

func (v *sloppyView) Listen(heard func(latchkey.Push)) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard[&heard] = v
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.heard, &heard)
	}
}

func (v *sloppyView) Do(_ context.Context, ops []*latchkey.Op) {
	for i, op := range ops {
		if v.flaw != leftovers {
			op.Reset()
		}
		op.Err, op.OK = nil, false
		if op.Ctx != nil && op.Ctx.Err() != nil && v.flaw != ignoresContext {
			op.Err = context.Cause(op.Ctx)
			continue
		}
		if v.flaw == oneFailsAll && i > 0 && !ops[i-1].OK {
			continue
		}
		if op.Owner == "" && op.Kind != latchkey.OpProve && !v.nobody(op) {
			continue
		}
		if v.flaw == doubleGrant && op.Kind == latchkey.OpAcquire && op.Fast {
			v.mu.Lock()
			free := v.holder(v.lock(op.Key)) == ""
			v.mu.Unlock()
			if free {
				<-time.After(time.Millisecond)
				v.mu.Lock()
				v.give(op, v.lock(op.Key))
				v.mu.Unlock()
			}
			continue
		}
		v.mu.Lock()
		if h := v.holder(v.lock(op.Key)); v.flaw == proofIsOwner && op.Kind != latchkey.OpProve && op.Owner == latchkey.Proof(h) {
			op.Owner = h
		}
		switch op.Kind {
		case latchkey.OpAcquire:
			v.acquire(op)
		case latchkey.OpRenew:
			v.renew(op)
		case latchkey.OpRelease:
			v.release(op)
		case latchkey.OpProve:
			l := v.lock(op.Key)
			h := v.holder(l)
			op.OK = h != "" && (latchkey.Proof(h) == op.Owner || v.flaw == proofByAnyone) || v.flaw == proofOfThePast &&
				latchkey.Proof(l.owner) == op.Owner
			op.Remaining = max(time.Until(l.end), 0)
		case latchkey.OpToken:
			if op.OK = v.holder(v.lock(op.Key)) == op.Owner || v.flaw == tokenForAnyone; op.OK {
				if v.flaw != tokenNotAbove {
					v.token = max(v.token, op.Above)
				}
				op.Token = v.mint(op.Tokens)
			}
		}
		v.mu.Unlock()
	}
}

// nobody answers an owner that is empty, and reports whether the operation is to be carried out all the same.
func (v *sloppyView) nobody(op *latchkey.Op) bool {
	switch {
	case v.flaw == emptyTakes && op.Kind == latchkey.OpAcquire:
		return true
	case op.Kind == latchkey.OpAcquire:
		op.Err, op.Final = errNobody, true
	case v.flaw == emptyHoldsFree:
		return true
	case v.flaw == emptyHoldsAll:
		op.OK = true
	}
	return false
}

func (v *sloppyView) lock(key string) *sloppyLock {
	if v.flaw == foldsKeys {
		key = strings.ToLower(key)
	}
	if v.locks[key] == nil {
		v.locks[key] = &sloppyLock{}
	}
	return v.locks[key]
}

func (v *sloppyView) holder(l *sloppyLock) string {
	if time.Now().After(l.end) {
		return ""
	}
	return l.owner
}

func (v *sloppyView) end(lease time.Duration) time.Time {
	switch {
	case v.flaw == forgetsExpiry, v.flaw == forgetsShortExpiry && lease == time.Millisecond:
		lease = time.Hour
	case v.flaw == cutsFractions:
		lease = lease.Truncate(time.Millisecond)
	case v.flaw == losesFractions && lease < time.Millisecond:
		lease = time.Hour
	case v.flaw == endsEarly:
		lease /= 2
	}
	return time.Now().Add(lease)
}

func (v *sloppyView) acquire(op *latchkey.Op) {
	l := v.lock(op.Key)
	holder := v.holder(l)
	barred := func(key, owner string) bool { return v.bars[key+" "+owner] }
	if barred(op.Key, op.Owner) && v.flaw != barIgnored && !op.Fast {
		op.Busy = op.Key
		if v.flaw == barQueued {
			v.join(op, l)
		}
		return
	}
	if holder != "" && (holder == op.Prev || op.Prev != "" && v.flaw == prevByAnyone ||
		barred(op.Key, holder) && v.flaw != barNotTakenOver && !op.Fast) {
		v.next(l)
		holder = v.holder(l)
	}
	if holder != "" && (holder != op.Owner || v.flaw == refusesOwner) {
		op.Busy, op.Remaining = op.Key, max(time.Until(l.end), 0)
		if op.Queue || v.flaw == placeForEverybody {
			v.join(op, l)
		}
		return
	}
	for _, key := range op.More {
		more := v.lock(key)
		if h := v.holder(more); h != "" && h != op.Owner && !barred(key, h) {
			op.Busy = key
			return
		}
		if v.flaw == halfTaken {
			more.owner, more.end = op.Owner, v.end(op.Lease)
		}
	}
	for _, key := range op.More {
		more := v.lock(key)
		more.owner, more.end = op.Owner, v.end(op.Lease)
		if v.flaw == manyWithoutLease {
			more.end = time.Now().Add(time.Hour)
		}
	}
	v.give(op, l)
}

func (v *sloppyView) give(op *latchkey.Op, l *sloppyLock) {
	if v.flaw != keepsOldLease || v.holder(l) != op.Owner {
		l.end = v.end(op.Lease)
	}
	if v.holder(l) != op.Owner && v.flaw == tokenGoesBack {
		v.token = 1000
	}
	l.owner, op.OK = op.Owner, true
	if v.flaw != keepsPlaceWhenGranted {
		l.leave(op.Owner)
	}
	if op.Tokens > 0 {
		op.Token = v.mint(op.Tokens)
	}
}

func (v *sloppyView) join(op *latchkey.Op, l *sloppyLock) {
	for i := range l.queue {
		w := &l.queue[i]
		if w.owner == op.Owner {
			if v.flaw == ticketChanges {
				v.ticket++
				w.ticket = v.ticket
			}
			op.Ticket = w.ticket
			return
		}
	}
	v.ticket++
	ticket := v.ticket
	if v.flaw == ticketReused {
		ticket = int64(len(op.Owner)) + int64(op.Owner[len(op.Owner)-1])
	}
	op.Ticket = ticket
	grant := op.Grant
	if grant == 0 {
		grant = time.Hour // for who does not want to queue
	}
	l.queue = append(l.queue, sloppyWaiter{op.Owner, grant, ticket})
}

func (l *sloppyLock) leave(owner string) {
	for i, w := range l.queue {
		if w.owner == owner {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			return
		}
	}
}

func (v *sloppyView) next(l *sloppyLock) {
	l.owner = ""
	if len(l.queue) == 0 {
		return
	}
	i := 0
	if v.flaw == lastInFirstOut {
		i = len(l.queue) - 1
	}
	w := l.queue[i]
	l.leave(w.owner)
	l.owner, l.end = w.owner, v.end(w.grant)
	if v.flaw == grantWithoutEnd {
		l.end = time.Now().Add(time.Hour)
	}
	if v.flaw == losesWakeup {
		return
	}
	for heard, view := range v.heard {
		if v.flaw != wakesOnlyItself || view == v {
			(*heard)(latchkey.Push{Owner: w.owner, Ticket: w.ticket})
		}
	}
}

func (v *sloppyView) renew(op *latchkey.Op) {
	l := v.lock(op.Key)
	switch h := v.holder(l); {
	case h == op.Owner, h != "" && v.flaw == renewByAnyone:
		l.end, op.OK = v.end(op.Lease), true
	case h == "" && v.flaw == renewTakesFree:
		l.owner, l.end, op.OK = op.Owner, v.end(op.Lease), true
	}
}

func (v *sloppyView) release(op *latchkey.Op) {
	l := v.lock(op.Key)
	if op.Bar > 0 {
		v.bars[op.Key+" "+op.Owner] = true
	}
	if op.Leave && v.flaw != keepsPlace {
		l.leave(op.Owner)
	}
	h := v.holder(l)
	op.OK = h != "" && (h == op.Owner || v.flaw == releaseByAnyone || v.flaw == releaseByPrefix && strings.HasPrefix(h, op.Owner))
	if op.OK {
		v.next(l)
	}
}

func (v *sloppyView) mint(n int64) int64 {
	first := v.token + 1
	v.token += n
	if v.flaw == tokenBlockOverlaps {
		v.token = first
	}
	return first
}
