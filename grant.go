package latchkey

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/waitqueue"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

const (
	// maxPasses and maxPassTime bound how often and how long a lock goes from caller to caller inside a process
	// before other processes get their turn.
	maxPasses   = 16
	maxPassTime = 100 * time.Millisecond
)

// turn is the right to go ahead with one key in this process.
type turn = waitqueue.Turn[*grant]

// grant is this process's claim on one key in the store: first a place in the store's queue perhaps, then the lock
// itself, which may pass through the hands of several local callers. Whoever has the key's turn owns the grant.
type grant struct {
	locks *Locks
	full  string // key with namespace
	owner string
	proof string // of the owner, if the lock is held elsewhere by whoever made this call: then it is only watched
	turn  *turn  // nil then
	fixed bool

	// item is watched while the store's lock is ours. Before that its deadline is the end of the hold that is in the way.
	item watchdog.Item
	ours bool
	// pending: asked for and refused, with a place in the store's queue.
	pending  bool
	grant    time.Duration    // how long the lock lives if the store hands it over; with a proof, had left when it was shown
	queuedAt watchdog.Reading // when the last refused request was sent
	ticket   int64            // the place it had
	wake     chan Push
	// unsure: a request got no answer, so copies of it may still be on the way.
	unsure bool
	// failed: this is no claim, but what those are told who waited for a key whose store has failed.
	failed error

	passes   int
	since    watchdog.Reading // when the store gave it
	token    int64            // first of the reserved block, 0 if none
	reserved int64
	// private: something outside this process relies on the store's owner being this very hold.
	private atomic.Bool

	lost atomic.Bool
	hold atomic.Pointer[hold]
}

// key is the key without the namespace.
func (g *grant) key() string { return g.full[len(g.locks.prefix):] }

// passable reports whether the next local caller can have the grant as it is.
func (g *grant) passable(c *holdConfig, now watchdog.Reading) bool {
	if !g.ours || g.lost.Load() || g.unsure || g.fixed || c.fixed || g.item.Lease != c.lease || g.private.Load() {
		return false
	}
	if g.passes >= maxPasses || now.Sub(g.since) > maxPassTime {
		return false
	}
	if c.mint && int64(g.passes)+1 >= g.reserved {
		return false
	}
	// What is left must be worth passing on.
	return g.item.Deadline.Left(now) > min(g.item.Lease, grantFor)/4
}

// showBusy tells those who come to the key that somebody elsewhere holds it, for how much longer as seen at sent.
func (g *grant) showBusy(sent watchdog.Reading, remaining time.Duration) {
	g.item.Deadline.Set(sent.Add(remaining))
	g.turn.Show(g)
}

// gone tells whoever holds the grant that the store has said so.
func (g *grant) gone() error {
	cause := lostError{g.key(), "the store has another holder or none"}
	g.lost.Store(true)
	if h := g.hold.Load(); h != nil {
		h.lose(cause)
	}
	return cause
}

// hold is one caller's time with a grant, shared by all leases that re-enter it.
type hold struct {
	g        *grant
	started  watchdog.Reading
	template string
	limit    *watchdog.Item // MaxHold, nil if there is none

	mu     sync.Mutex
	refs   int
	phase  phase
	cause  error
	ctxs   []*leaseCtx // contexts that somebody listens to
	token  int64
	minted bool
	tokens sync.Mutex // serialises minting on demand

	// fences counts the transactions that raised the hold's fence row. dbTokens were minted by databases.
	fences   atomic.Int64
	dbTokens map[*TxManager]int64
	// expire: a transaction under the hold has an unknown outcome, so the lock must not be let go but run out.
	expire bool
}

type phase uint8

const (
	phaseHeld phase = iota
	phaseLost
	phaseReleased
)

// expired reports whether the clock alone says that the lease is over.
func (h *hold) expired(now watchdog.Reading) bool {
	return h.g.item.Deadline.Passed(now) || h.limit != nil && h.limit.Deadline.Passed(now)
}

// expiry says which bound passed.
func (h *hold) expiry() error {
	if h.limit != nil && h.limit.Deadline.Passed(watchdog.Now()) {
		return lostError{h.g.key(), "held for longer than MaxHold allows"}
	}
	if h.g.fixed {
		return lostError{h.g.key(), "held for longer than LeaseFor allows"}
	}
	return lostError{h.g.key(), "not renewed in time"}
}

// live reports whether the hold is still good at now, and finds out if it is not.
func (h *hold) live(now watchdog.Reading) bool {
	h.mu.Lock()
	held := h.phase == phaseHeld
	h.mu.Unlock()
	if held && h.expired(now) {
		h.lose(h.expiry())
		return false
	}
	return held
}

// enter adds a lease to a hold that is still good.
func (h *hold) enter(now watchdog.Reading) bool {
	if !h.live(now) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != phaseHeld {
		return false
	}
	h.refs++
	return true
}

// leave ends one lease. It returns whether it was the last one, which has to let the grant go, and the loss if the
// hold was lost: the grant is gone then.
func (h *hold) leave(c *leaseCtx, now watchdog.Reading) (last bool, lost error) {
	h.live(now)
	h.mu.Lock()
	h.refs--
	last = h.refs == 0
	if h.phase == phaseLost {
		lost = h.cause
	}
	if last && h.phase == phaseHeld {
		if h.expire {
			last = false // held on until the watchdog finds that it has run out
		} else {
			h.phase = phaseReleased
		}
	}
	for i := range h.ctxs {
		if h.ctxs[i] == c {
			h.ctxs[i] = h.ctxs[len(h.ctxs)-1]
			h.ctxs = h.ctxs[:len(h.ctxs)-1]
			break
		}
	}
	h.mu.Unlock()
	return last, lost
}

// lose ends the hold and cancels every context that was given out under it. The key's turn in this process goes to
// the next caller: a function that does not listen keeps only itself waiting. The store's lock, if it is still there,
// runs out.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if h.phase != phaseHeld {
		h.mu.Unlock()
		return
	}
	h.phase, h.cause = phaseLost, cause
	ctxs := h.ctxs
	h.ctxs = nil
	h.mu.Unlock()
	for _, c := range ctxs {
		c.cancel(cause)
	}
	l, g := h.g.locks, h.g
	g.lost.Store(true)
	l.dog.Remove(&g.item)
	if h.limit != nil {
		l.dog.Remove(h.limit)
	}
	if g.proof == "" {
		g.turn.Leave()
	}
	l.observe(backgroundCtx, EventLost, h.template, g.key(), watchdog.Now().Sub(h.started), cause)
}

// lostError says how a lease was lost. It matches [ErrLeaseLost].
type lostError struct{ key, how string }

func (e lostError) Error() string        { return "latchkey: lease of " + quote(e.key) + " lost: " + e.how }
func (e lostError) Is(target error) bool { return target == ErrLeaseLost }
