package quorumstore

import (
	"fmt"
	"sync"
	"time"
)

// claim is what one owner asked the masters for, for as long as it may have a vote somewhere. It tells a release which
// masters to ask, and what to wait for: a request that is still on its way would otherwise arrive after the release and
// leave the key locked for a whole lease.
type claim struct {
	mu    sync.Mutex
	last  *attempt // the only one that was not rolled back, if any
	older *claim   // of the same owner, with requests that may still be on their way
	gone  bool     // let go, perhaps while an attempt was under way
	end   time.Time
}

// attempt is one round of asking all masters for their vote.
type attempt struct {
	value  string
	lease  time.Duration
	mu     sync.Mutex
	stands []stand
}

// stand is where one master stands.
type stand struct {
	asked  chan struct{} // closed when the answer is in; nil: never asked
	vote   voteKind
	closed bool // the vote is being taken back, or was: it must not be asked for any more
}

type claimKey struct{ key, owner string }

// claims are the claims of a store.
type claims struct {
	mu   sync.Mutex
	all  map[claimKey]*claim
	room int   // how many there may be before those that have ended are looked for
	last int64 // number of the last attempt
}

const claimRoom = 1024

// open makes the claim that a new request of an owner stands for.
func (cs *claims) open(key, owner string) *claim {
	c := &claim{}
	k := claimKey{key, owner}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) >= cs.room {
		cs.sweep()
	}
	if old := cs.all[k]; old != nil && !old.settled() {
		c.older = old
	}
	cs.all[k] = c
	return c
}

// sweep drops claims whose lease has ended without a release. cs.mu is held.
func (cs *claims) sweep() {
	now := time.Now()
	for k, c := range cs.all {
		c.mu.Lock()
		ended := !c.end.IsZero() && now.After(c.end)
		c.mu.Unlock()
		if ended {
			delete(cs.all, k)
		}
	}
	cs.room = max(claimRoom, 2*len(cs.all))
}

// find returns an owner's claim, nil if there is none.
func (cs *claims) find(key, owner string) *claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.all[claimKey{key, owner}]
}

// take removes an owner's claim and returns it, nil if there is none. An attempt that is still under way ends.
func (cs *claims) take(key, owner string) *claim {
	cs.mu.Lock()
	c := cs.all[claimKey{key, owner}]
	delete(cs.all, claimKey{key, owner})
	cs.mu.Unlock()
	if c != nil {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
	}
	return c
}

// drop forgets a claim that came to nothing.
func (cs *claims) drop(key, owner string, c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all[claimKey{key, owner}] == c {
		delete(cs.all, claimKey{key, owner})
	}
}

// number returns the number of a new attempt: larger than all before, also those of this owner through another store.
func (cs *claims) number() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.last = max(cs.last+1, time.Now().UnixNano())
	return fmt.Sprintf("%016x", cs.last)
}

// begin starts an attempt. It returns nil if the claim was let go meanwhile.
func (c *claim) begin(value string, masters int, lease time.Duration) *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil
	}
	c.last = &attempt{value: value, lease: lease, stands: make([]stand, masters)}
	c.end = time.Now().Add(lease)
	return c.last
}

// extend notes a renewal that was asked for at sent.
func (c *claim) extend(sent time.Time, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = sent.Add(lease)
}

// isGone reports whether the claim was let go.
func (c *claim) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// ask notes that master i is being asked and returns what to call with its vote; nil if it must not be asked, because its
// vote was let go meanwhile, or because the answer to a request is still due. A vote is asked for again if the master
// has forgotten it: once a request has got no answer, whatever a later one says, a copy may still arrive.
func (a *attempt) ask(i int) (done func(voteKind)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.stands[i]
	if s.closed {
		return nil
	}
	loose := false
	if s.asked != nil {
		select {
		case <-s.asked:
			loose = s.vote == voteFailed
		default:
			return nil
		}
	}
	asked := make(chan struct{})
	s.asked, s.vote = asked, voteFailed
	return func(v voteKind) {
		a.mu.Lock()
		if !loose {
			s.vote = v
		}
		a.mu.Unlock()
		close(asked)
	}
}

// await closes master i to further requests for its vote, waits until it has answered, or will not any more, and returns
// where it stands: voteNone if it was never asked, voteFailed if it may give its vote later.
func (a *attempt) await(i int) voteKind {
	a.mu.Lock()
	s := &a.stands[i]
	s.closed = true
	asked := s.asked
	a.mu.Unlock()
	if asked == nil {
		return voteNone
	}
	<-asked
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.vote
}

// await is the same for all that the claim asked for.
func (c *claim) await(i int) voteKind {
	c.mu.Lock()
	last, older := c.last, c.older
	c.mu.Unlock()
	vote := voteNone
	if last != nil {
		vote = last.await(i)
	}
	if older != nil {
		if v := older.await(i); v == voteFailed || v == voteYes && vote != voteFailed {
			vote = v
		}
	}
	return vote
}

// settled reports whether no request is on its way and none is unaccounted for.
func (c *claim) settled() bool {
	c.mu.Lock()
	last, older := c.last, c.older
	c.mu.Unlock()
	if older != nil {
		return false
	}
	if last == nil {
		return true
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	for _, s := range last.stands {
		if s.asked == nil {
			continue
		}
		select {
		case <-s.asked:
		default:
			return false
		}
		if s.vote == voteFailed {
			return false
		}
	}
	return true
}

// left is how long the claim's lease may live, by this process's clock, and the value of its last attempt.
func (c *claim) left() (time.Duration, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value := ""
	if c.last != nil {
		value = c.last.value
	}
	return max(time.Until(c.end), 0), value
}
