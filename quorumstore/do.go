package quorumstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/latchkey-go/latchkey"
)

const (
	// headStart is how long a newcomer leaves the lock to the one that was told to ask again.
	headStart = 20 * time.Millisecond
	// unhurried is added to the lease that redsync hears of. It judges the validity of what it got from its own start;
	// latchkey judges it too, from before the request was queued, which is earlier. One judge is enough.
	unhurried = time.Hour
	// noDeadline bounds a Do whose context has no deadline.
	noDeadline = 10 * time.Second
	// maxMargin is how long before the deadline of Do the answer is due, at most.
	maxMargin = 50 * time.Millisecond
)

var (
	errNoOwner = errors.New("quorumstore: the owner is empty; an owner is a random text")
	errLetGo   = errors.New("quorumstore: released while it was being acquired")
)

// Do implements [latchkey.Store]. Each operation is a ballot of its own; what goes to one master at the same moment shares
// a pipeline.
func (s *Store) Do(ctx context.Context, ops []*latchkey.Op) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(noDeadline)
	}
	// Whoever waits for the answer should get it, rather than find out that there is none.
	deadline = deadline.Add(-min(max(time.Until(deadline), 0)/10, maxMargin))
	if len(ops) == 1 {
		s.do(ops[0], deadline)
		return
	}
	var all sync.WaitGroup
	for _, op := range ops {
		all.Go(func() { s.do(op, deadline) })
	}
	all.Wait()
}

func (s *Store) do(op *latchkey.Op, deadline time.Time) {
	op.Reset()
	switch {
	case op.Ctx != nil && op.Ctx.Err() != nil:
		op.Err = context.Cause(op.Ctx)
	case op.Owner == "":
		// Nobody's. redsync's scripts would take it for the owner of a key that holds an empty value.
		if op.Kind == latchkey.OpAcquire {
			op.Err, op.Final = errNoOwner, true
		}
	case op.Kind == latchkey.OpAcquire:
		s.acquire(op, deadline)
	case op.Kind == latchkey.OpRenew:
		s.renew(op, deadline)
	case op.Kind == latchkey.OpRelease:
		s.release(op, deadline)
	case op.Kind == latchkey.OpToken:
		s.mint(op, deadline, nil)
	}
}

// context is the context by which a ballot reaches the masters through redsync.
func (b *ballot) context() context.Context {
	return context.WithValue(context.Background(), ballotKey{}, b)
}

// mutex is redsync's engine for one question. FailFast: the answer is there as soon as a majority has given it, and a slow
// master holds nobody up.
func (s *Store) mutex(op *latchkey.Op, value string) *redsync.Mutex {
	return s.engine.NewMutex(op.Key,
		redsync.WithTries(1),
		redsync.WithFailFast(true),
		redsync.WithExpiry(op.Lease+unhurried),
		redsync.WithValue(value),
		redsync.WithGenValueFunc(func() (string, error) { return value, nil }),
	)
}

func (s *Store) acquire(op *latchkey.Op, deadline time.Time) {
	c := s.claims.open(op.Key, op.Owner)
	place := s.place(op)
	asked := *op
	var prev *claim
	if op.Prev != "" {
		prev = s.claims.take(op.Key, op.Prev)
	}
	for try := 0; ; try++ {
		a := c.begin(op.Owner+"."+s.claims.number(), len(s.masters), op.Lease)
		if a == nil {
			op.Err = errLetGo
			return
		}
		b := s.newBallot(&asked, deadline)
		b.claim, b.attempt, b.prev, b.place = c, a, prev, place
		if s.mutex(op, a.value).TryLockContext(b.context()) == nil {
			s.acquired(op, deadline, b)
			return
		}
		asked.Prev, prev = "", nil // it has been let go
		t := s.count(b)
		switch {
		case t.yes+t.no < t.quorum:
			t.fail(op)
		case op.Fast || t.passed() || !t.split():
			t.refuse(op)
		case try+1 < t.tries() && s.backOff(op, deadline, try, t.ahead()):
			continue
		default:
			t.refuse(op)
			op.Remaining = headStart // nobody's for long
		}
		s.claims.drop(op.Key, op.Owner, c)
		return
	}
}

// acquired fills in the answer to an acquire that got a majority.
func (s *Store) acquired(op *latchkey.Op, deadline time.Time, b *ballot) {
	if b.claim.isGone() {
		for _, m := range s.masters {
			go func() { _, _ = b.rollback(m) }() // what fails is taken back later
		}
		op.Err = errLetGo
		return
	}
	if op.Tokens > 0 {
		s.mint(op, deadline, b)
		return
	}
	op.OK = true
}

// backOff waits for a random time after a split vote, longer from try to try, so that in the end one comes alone. It
// returns false if there is no time left.
func (s *Store) backOff(op *latchkey.Op, deadline time.Time, try int, ahead bool) bool {
	pause := time.Millisecond << min(try, 5)
	if ahead {
		pause = time.Millisecond / 2
	}
	pause = rand.N(pause) //nolint:gosec // no secret, only not the same for all
	if time.Until(deadline) < pause+s.patience {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	if op.Ctx == nil {
		<-timer.C
		return true
	}
	select {
	case <-timer.C:
		return true
	case <-op.Ctx.Done():
		return false
	}
}

func (s *Store) renew(op *latchkey.Op, deadline time.Time) {
	sent := time.Now()
	b := s.newBallot(op, deadline)
	if ok, _ := s.mutex(op, op.Owner).ExtendContext(b.context()); ok {
		op.OK = true
		if c := s.claims.find(op.Key, op.Owner); c != nil {
			c.extend(sent, op.Lease)
			s.repair(b, c)
		}
		return
	}
	if t := s.count(b); !t.lost() {
		t.fail(op)
	}
}

// repair asks masters that have no vote of a lock's, because they were down or have forgotten it, to give it again, in the
// background: the majority is known to be the owner's, and the more masters know the fewer can be lost.
func (s *Store) repair(b *ballot, c *claim) {
	c.mu.Lock()
	a := c.last
	gone := c.gone
	c.mu.Unlock()
	if a == nil || gone {
		return
	}
	for i, v := range s.count(b).votes {
		if v.kind != voteNo {
			continue
		}
		again := s.newBallot(&b.op, time.Now().Add(s.patience))
		again.claim, again.attempt = c, a
		go func() { _, _ = again.acquire(s.masters[i]) }()
	}
}

func (s *Store) release(op *latchkey.Op, deadline time.Time) {
	b := s.newBallot(op, deadline)
	b.claim = s.claims.take(op.Key, op.Owner)
	if op.Leave {
		b.place = s.placeOf(op.Owner)
	}
	if ok, _ := s.mutex(op, op.Owner).UnlockContext(b.context()); ok {
		op.OK = true
		return
	}
	if t := s.count(b); !t.lost() {
		t.fail(op)
	}
}

// ownerOf returns the owner in a lock's value, or the value of a lock that is none of ours.
func ownerOf(value string) string {
	if i := strings.LastIndexByte(value, '.'); i >= 0 && len(value)-i == 17 {
		return value[:i]
	}
	return value
}

// parse reads an integer; 0 if it is none.
func parse(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
