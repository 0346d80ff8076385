package quorumstore

import (
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey"
)

// mint reserves fencing tokens. redsync has nothing like it, so the masters are asked directly, twice:
//
//   - a majority, each of which confirms that the lock is the owner's there, tells the last token it knows, or its clock where
//     that is ahead; the new tokens follow the largest;
//   - the last of the new tokens is written to a majority, each of which confirms again that the lock is the owner's and that
//     the number is news to it.
//
// Two majorities share a master, so a later holder's first question meets what was written here, as long as that master
// remembers. acquired is the ballot that has just taken the lock, which asked the first question already, or nil.
func (s *Store) mint(op *latchkey.Op, deadline time.Time, acquired *ballot) {
	lock := []string{op.Key, counterKey(op.Key)}
	question := *op
	for {
		b := acquired
		if b == nil {
			b = s.newBallot(&question, deadline)
			b.strict = true
			s.poll(b, func(m *master) {
				s.castToken(b, m, floorScript, lock, question.Owner)
			})
		}
		acquired = nil
		t := s.count(b)
		if t.yes < t.quorum {
			if !t.lost() {
				t.fail(op)
			}
			return
		}
		floor := op.Above
		for _, v := range t.votes {
			floor = max(floor, parse(v.floor))
		}
		last := floor + op.Tokens
		w := s.newBallot(&question, deadline)
		w.strict = true
		overtaken := s.poll(w, func(m *master) {
			s.castToken(w, m, raiseScript, lock, question.Owner, strconv.FormatInt(last, 10))
		})
		t = s.count(w)
		switch {
		case t.yes >= t.quorum:
			op.OK, op.Token = true, floor+1
			return
		case overtaken && time.Now().Before(deadline):
			// The same owner minted elsewhere at the same time.
		case t.lost():
			return
		default:
			t.fail(op)
			return
		}
	}
}

// castToken asks one master a question about tokens.
func (s *Store) castToken(b *ballot, m *master, sc *script, keys []string, args ...any) {
	reply, err := m.eval(b, sc, keys, args...)
	v := vote{kind: voteNo}
	switch {
	case err != nil:
		v = failedVote(err)
	case text(reply, 0) == "1":
		v = vote{kind: voteYes, floor: text(reply, 1)}
	case text(reply, 0) == "2":
		v.passed = true
	}
	_, _ = b.cast(m, v)
}

// poll puts a question to the masters and returns when a majority has said yes or none can any more. It reports whether
// one of them is further than was thought.
func (s *Store) poll(b *ballot, ask func(*master)) (further bool) {
	heard := make(chan struct{}, len(s.masters))
	for _, m := range s.masters {
		go func() {
			if b.admit(m) {
				ask(m)
			} else {
				_, _ = b.cast(m, failedVote(errSkipped))
			}
			heard <- struct{}{}
		}()
	}
	for range s.masters {
		<-heard
		t := s.count(b)
		if t.yes >= t.quorum || t.yes+t.masters-(t.yes+t.no+t.failed) < t.quorum {
			break
		}
	}
	t := s.count(b)
	return t.passed()
}

var _ latchkey.Store = (*Store)(nil)
