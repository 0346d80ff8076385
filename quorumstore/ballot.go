package quorumstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redisreply"
)

// voteKind is what a master said.
type voteKind uint8

const (
	voteNone   voteKind = iota // not heard yet
	voteYes                    // the key is the owner's there
	voteNo                     // it is not
	voteFailed                 // no answer, or an error
)

// vote is one master's answer.
type vote struct {
	kind      voteKind
	err       error // of voteFailed
	holder    string
	foreign   bool
	passed    bool // the lock was let go in favour of somebody in the queue
	remaining time.Duration
	floor     string
}

// ballot is one question that is put to all masters. It outlives the answer: masters that are slower than the majority
// are heard later, by nobody but the claim.
type ballot struct {
	op       latchkey.Op // a copy: the caller owns the original again when Do returns
	deadline time.Time
	claim    *claim // of the owner, nil if this store has none
	attempt  *attempt
	prev     *claim // of op.Prev, if this store has it
	place    string // in the queues, "" for none
	flying   *atomic.Int64
	flies    bool // redsync asks all masters, and each vote is counted in flying until it is cast

	mu      sync.Mutex
	votes   []vote
	quorum  int
	yes, no int
	enough  chan struct{} // closed when it does not take the others to decide
	hopeful []bool        // masters that may still answer in time, or have; those out of service are not
	hopes   int           // how many
	pending int           // those of them that have not answered
	short   chan struct{} // closed when the hopeful can't decide without the others
	strict  bool          // it takes a majority that agrees; a vote that is split is no answer
	decided bool          // enough is closed
	tooFew  bool          // short is closed
}

// newBallot prepares a question to all masters.
func (s *Store) newBallot(op *latchkey.Op, deadline time.Time) *ballot {
	n := len(s.masters)
	b := &ballot{
		op: *op, deadline: deadline, quorum: s.quorum, votes: make([]vote, n), hopeful: make([]bool, n),
		enough: make(chan struct{}), short: make(chan struct{}), strict: op.Kind != latchkey.OpAcquire,
		flying: &s.flying,
	}
	for i, m := range s.masters {
		if m.serving() {
			b.hopeful[i] = true
			b.hopes++
			b.pending++
		}
	}
	b.judge()
	return b
}

// judge finds out whether the masters that have not answered are still needed. b.mu is held.
func (b *ballot) judge() {
	enough := b.yes+b.no >= b.quorum
	if b.strict {
		enough = b.yes >= b.quorum || b.no > len(b.votes)-b.quorum
	}
	if enough && !b.decided {
		b.decided = true
		close(b.enough)
	}
	if short := b.hopes < b.quorum || b.pending == 0 && !enough; short && !b.tooFew {
		b.tooFew = true
		close(b.short)
	}
}

// admit reports whether a master is to be asked: at once if it is in service, and else only if those that are turn out to
// be too few.
func (b *ballot) admit(m *master) bool {
	b.mu.Lock()
	serving := b.hopeful[m.index]
	b.mu.Unlock()
	if serving {
		return true
	}
	select {
	case <-b.short:
		return true
	case <-b.enough:
		return false
	}
}

// late notes that a master has not answered in time.
func (b *ballot) late(m *master) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveUp(m)
	b.judge()
}

func (b *ballot) giveUp(m *master) {
	if b.hopeful[m.index] {
		b.hopeful[m.index] = false
		b.hopes--
		b.pending--
	}
}

func lockKeys(key string) []string { return []string{key, queueKey(key), barsKey(key)} }

func releaseArgs(owner, value string, hint bool, place string, bar time.Duration) []any {
	h := 0
	if hint {
		h = 1
	}
	return []any{owner, value, h, place, millis(bar)}
}

// millis rounds up: a lease is never shorter than asked for, and never 0 if it is not.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// cast notes a master's vote.
func (b *ballot) cast(m *master, v vote) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes[m.index] = v
	switch {
	case v.kind == voteFailed:
		b.giveUp(m)
	case b.hopeful[m.index]:
		b.pending--
	}
	switch v.kind {
	case voteYes:
		b.yes++
	case voteNo:
		b.no++
	}
	b.judge()
	if b.flies {
		b.flying.Add(-1)
	}
	return v.kind == voteYes, v.err
}

func failedVote(err error) vote { return vote{kind: voteFailed, err: err} }

// acquire asks for a master's vote. It is the SET NX of redsync's algorithm, but asking again with the same owner says yes.
func (b *ballot) acquire(m *master) (bool, error) {
	prev, before := b.op.Prev, voteNone
	if prev != "" && b.prev != nil {
		before = b.prev.await(m.index)
	}
	var done func(voteKind)
	if b.admit(m) {
		done = b.attempt.ask(m.index)
	}
	if done == nil {
		b.takeBackPrev(m, before)
		return b.cast(m, failedVote(errSkipped))
	}
	tokens := 0
	if b.op.Tokens > 0 {
		tokens = 1
	}
	keys := append(lockKeys(b.op.Key), counterKey(b.op.Key))
	reply, err := m.eval(b, acquireScript, keys, b.op.Owner, b.attempt.value, millis(b.op.Lease), prev, b.place,
		latchkey.OwnerPrefix, millis(headStart), tokens)
	switch {
	case err == nil && text(reply, 0) == "1":
		done(voteYes)
	case err == nil, redisreply.Answered(err):
		done(voteNo)
	default:
		done(voteFailed)
	}
	if err != nil {
		b.takeBackPrev(m, before)
		return b.cast(m, failedVote(err))
	}
	if before == voteFailed {
		b.takeBackPrev(m, before)
	}
	if text(reply, 0) == "1" {
		return b.cast(m, vote{kind: voteYes, floor: text(reply, 1)})
	}
	return b.cast(m, vote{
		kind:      voteNo,
		remaining: time.Duration(max(parse(text(reply, 1)), 0)) * time.Millisecond,
		foreign:   text(reply, 2) == "1",
		holder:    ownerOf(text(reply, 3)),
		passed:    text(reply, 4) == "1",
	})
}

// takeBackPrev lets the previous owner's lock go on a master that could not be asked to pass it on.
func (b *ballot) takeBackPrev(m *master, before voteKind) {
	if b.op.Prev == "" || b.prev == nil || before != voteYes && before != voteFailed {
		return
	}
	left, value := b.prev.left()
	m.takeBack(undoing{key: b.op.Key, owner: b.op.Prev, value: value, hint: true, bar: left})
}

// rollback takes a vote back that did not make a majority, and wakes nobody: those who wait would only try the same.
func (b *ballot) rollback(m *master) (bool, error) {
	a := b.attempt
	back := undoing{key: b.op.Key, owner: b.op.Owner, value: a.value, bar: a.lease}
	switch a.await(m.index) {
	case voteYes:
		reply, err := m.eval(nil, releaseScript, lockKeys(back.key), releaseArgs(back.owner, back.value, false, "", 0)...)
		if err != nil {
			m.takeBack(back)
			return false, err
		}
		return reply == int64(1), nil
	case voteFailed:
		m.takeBack(back)
		return false, errSilent
	default:
		return false, nil
	}
}

// release lets go of a master's vote, after the request for it has been answered.
func (b *ballot) release(m *master) (bool, error) {
	stand, value, bar := voteYes, "", b.op.Bar
	if b.claim != nil {
		stand = b.claim.await(m.index)
		if stand == voteFailed && bar == 0 {
			bar, value = b.claim.left()
		}
	}
	if !b.op.Leave && (stand == voteNone || stand == voteNo) {
		return b.cast(m, vote{kind: voteNo})
	}
	back := undoing{key: b.op.Key, owner: b.op.Owner, value: value, hint: true, bar: bar}
	// What is not known to be there need not be fetched from a master that is down.
	owed := bar > 0 || b.claim != nil && stand == voteYes
	if !b.admit(m) {
		if owed {
			m.takeBack(back)
		}
		return b.cast(m, failedVote(errSkipped))
	}
	reply, err := m.eval(b, releaseScript, lockKeys(b.op.Key), releaseArgs(b.op.Owner, value, true, b.place, bar)...)
	if err != nil {
		if owed {
			m.takeBack(back)
		}
		return b.cast(m, failedVote(err))
	}
	return b.castAnswer(m, reply)
}

// renew gives a master's vote a new lease if it is still the owner's.
func (b *ballot) renew(m *master) (bool, error) {
	if !b.admit(m) {
		return b.cast(m, failedVote(errSkipped))
	}
	reply, err := m.eval(b, renewScript, []string{b.op.Key}, b.op.Owner, millis(b.op.Lease))
	if err != nil {
		return b.cast(m, failedVote(err))
	}
	return b.castAnswer(m, reply)
}

func (b *ballot) castAnswer(m *master, reply any) (bool, error) {
	if reply == int64(1) {
		return b.cast(m, vote{kind: voteYes})
	}
	return b.cast(m, vote{kind: voteNo})
}
