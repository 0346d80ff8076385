package quorumstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redisreply"
)

// tally is what the masters have said by the time redsync had enough.
type tally struct {
	votes               []vote
	yes, no, failed     int
	masters, quorum     int
	names               func(i int) string
	finals, holderVotes int
}

func (s *Store) count(b *ballot) tally {
	b.mu.Lock()
	t := tally{votes: slices.Clone(b.votes), masters: len(s.masters), quorum: s.quorum}
	b.mu.Unlock()
	t.names = func(i int) string { return s.masters[i].name() }
	holders := make(map[string]int)
	for _, v := range t.votes {
		switch v.kind {
		case voteYes:
			t.yes++
		case voteNo:
			t.no++
			holders[v.holder]++
			t.holderVotes = max(t.holderVotes, holders[v.holder])
		case voteFailed:
			t.failed++
			if redisreply.Final(v.err) {
				t.finals++
			}
		}
	}
	return t
}

// lost reports whether no majority can be the owner's.
func (t *tally) lost() bool { return t.no > t.masters-t.quorum }

const (
	// maxTries is how often a vote is repeated within one acquire if it was split.
	maxTries = 16
	// fewTries is the same if those who did not answer may make a majority with the others.
	fewTries = 10
)

// split reports whether nobody is seen to have a majority: those who ask at the same moment take it from each other.
func (t *tally) split() bool { return t.no > 0 && t.holderVotes < t.quorum }

// tries is how often it is worth asking.
func (t *tally) tries() int {
	if t.holderVotes+t.failed >= t.quorum {
		return fewTries
	}
	return maxTries
}

// passed reports whether a master let the lock go in favour of somebody who queued.
func (t *tally) passed() bool {
	return slices.ContainsFunc(t.votes, func(v vote) bool { return v.passed })
}

// ahead reports whether the first master that answered is ours: of those who split the vote, one is.
func (t *tally) ahead() bool {
	for _, v := range t.votes {
		if v.kind == voteYes || v.kind == voteNo {
			return v.kind == voteYes
		}
	}
	return false
}

// refuse fills in the answer to an acquire that found the lock taken: it may be free when as many masters as are missing
// to a majority are.
func (t *tally) refuse(op *latchkey.Op) {
	op.Busy = op.Key
	var left []time.Duration
	for _, v := range t.votes {
		if v.kind != voteNo {
			continue
		}
		op.Foreign = op.Foreign || v.foreign
		if v.remaining > 0 {
			left = append(left, v.remaining)
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		op.Remaining = left[min(max(t.quorum-t.yes-1, 0), len(left)-1)]
	}
}

// fail fills in the error for want of a majority that answers.
func (t *tally) fail(op *latchkey.Op) {
	op.Err = t.err()
	op.Final = t.finals > t.masters-t.quorum
}

func (t *tally) err() error {
	e := &NoQuorumError{Answered: t.yes + t.no, Masters: t.masters, Quorum: t.quorum}
	for i, v := range t.votes {
		if v.kind == voteFailed {
			e.Errs = append(e.Errs, fmt.Errorf("%s: %w", t.names(i), v.err))
		}
	}
	return e
}

// NoQuorumError is the backend's error behind [latchkey.ErrStore] when too few masters answered to know who has a lock.
type NoQuorumError struct {
	// Answered is how many of the Masters answered; Quorum is how many have to.
	Answered, Masters, Quorum int
	// Errs are the errors of those that did not.
	Errs []error
}

// Error implements error.
func (e *NoQuorumError) Error() string {
	msg := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		msg[i] = err.Error()
	}
	return fmt.Sprintf("quorumstore: %d of %d masters answered, and %d must agree; bring back: %s",
		e.Answered, e.Masters, e.Quorum, strings.Join(msg, "; "))
}

// Unwrap returns the errors of the masters that did not answer.
func (e *NoQuorumError) Unwrap() []error { return e.Errs }
