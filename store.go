package latchkey

import (
	"context"
	"time"
)

// Store is where locks live. The stores of this module are memstore (one process), redisstore (many processes) and
// quorumstore (many processes, over a majority of independent servers); package locktest's conformance suite says what
// an implementation has to do.
//
// A store only answers: waiting, queueing within the process, renewing, re-entrancy and hand-over are done once,
// in [Locks]. Implementations must be safe for concurrent use.
type Store interface {
	// Capabilities says what the store can do. The answer never changes.
	Capabilities() Capabilities

	// Do carries out a batch of operations, fills in each one's answer and returns when all have one. Operations
	// of one batch are independent of each other: one may fail while others succeed. Do makes each operation
	// once; whoever wants it repeated asks again.
	//
	// The deadline of ctx bounds the batch. Each Op has a context of its own: an operation whose context has ended
	// before it was sent is answered with that context's error.
	Do(ctx context.Context, ops []*Op)

	// Listen calls heard for every Push that is meant for this store's waiters, until stop is called. Calls may come
	// from several goroutines at once; heard returns quickly. A store with neither Push nor Hints never calls it.
	Listen(heard func(Push)) (stop func())
}

// Capabilities is what a store states about itself.
type Capabilities struct {
	// Push: a release hands the lock to the first in the store's queue and tells it so through Listen. Without
	// it waiters poll.
	Push bool
	// Hints: a release grants the lock to nobody, but hints to those in the store's queue, through Listen, that it is
	// worth asking for again. A hint promises nothing: it may come too early, twice, or not at all. It is for stores
	// that can't hand a lock over because no single server decides who has it. Not together with Push.
	Hints bool
	// Tokens: the store mints fencing tokens.
	Tokens bool
	// Proofs: the store knows OpProve.
	Proofs bool
	// ManyKeys: an acquire may name several keys, all or nothing.
	ManyKeys bool
	// Bars: a release can bar its owner. A store without it is asked again and again to take back what an owner may
	// have left behind, and blocks others meanwhile.
	Bars bool
	// Instant: Do answers from memory and never blocks. It is then called straight from the caller's goroutine,
	// one operation at a time.
	Instant bool
}

// wakes reports whether the store tells waiters anything.
func (c Capabilities) wakes() bool { return c.Push || c.Hints }

// OpKind says what an operation does.
type OpKind uint8

// The operations of a [Store].
const (
	// OpAcquire takes Key for Owner if it is free, or is Owner's already. It never waits.
	OpAcquire OpKind = iota + 1
	// OpRenew gives Key a new lease, counted from now, if it is Owner's.
	OpRenew
	// OpRelease lets Key go if it is Owner's.
	OpRelease
	// OpToken mints a fencing token for Key if it is Owner's.
	OpToken
	// OpProve tells whether Key is held by the owner whose [Proof] is in Owner, and how long the hold will last
	// unless it is renewed (Remaining). It changes nothing.
	OpProve
)

// String returns the verb: "acquire", "renew", "release", "mint a token for" or "check who holds".
func (k OpKind) String() string {
	switch k {
	case OpAcquire:
		return "acquire"
	case OpRenew:
		return "renew"
	case OpRelease:
		return "release"
	case OpToken:
		return "mint a token for"
	case OpProve:
		return "check who holds"
	}
	return "do an unknown operation on"
}

// Op is one operation and its answer. The caller of [Store.Do] fills in the question and owns the Op again when Do
// returns.
type Op struct {
	// Kind is what to do.
	Kind OpKind
	// Ctx is the context of the one who asks; nil means [context.Background].
	Ctx context.Context
	// Key is the full key, namespace included.
	Key string
	// More are further keys of an OpAcquire: all are taken, or none. Only for stores with the ManyKeys capability,
	// and never together with Queue, Prev or Tokens.
	More []string
	// Owner is who asks: a random text that nobody else knows, without spaces. An empty one owns nothing, whatever a key
	// holds: an OpAcquire fails for good, everything else is answered no.
	Owner string
	// Lease is how long the hold lives unless it is renewed (OpAcquire, OpRenew). A store
	// that counts milliseconds rounds fractions up.
	Lease time.Duration
	// Prev is an owner who lets go in favour of this OpAcquire: if Key is Prev's, the first in the queue gets it,
	// and Owner does if the queue is empty. In a store with the Hints capability the lock may then be free for a moment:
	// Remaining is how long Owner should leave it to the one that was told.
	Prev string
	// Fast marks an OpAcquire by an owner that has not asked before and expects the key to be free: the store may
	// use its cheapest test and refuse without details.
	Fast bool
	// Queue makes a refused OpAcquire a place in the store's queue, kept while the same owner asks again from time
	// to time. When the lock is let go the first in the queue gets it, for the time Grant, and is told by a Push. In a
	// store with the Hints capability it does not get it, but is told to ask again, and leaves the queue.
	Queue bool
	// Grant is how long a lock handed to a waiter lives until the waiter asks again. It is the same in all operations
	// of one owner that have Queue or Leave.
	Grant time.Duration
	// Leave makes an OpRelease give up Owner's place in the queue as well.
	Leave bool
	// Bar makes an OpRelease with Leave bar Owner from Key for that long: requests of Owner that arrive late are refused
	// and get no place in the queue, and if one gets the lock all the same, whoever asks next takes it over. An owner that
	// was barred never asks again; only copies of its requests may be on their way. 0 bars nobody. For stores with the
	// Bars capability.
	Bar time.Duration
	// Tokens is how many successive fencing tokens to reserve (OpAcquire, OpToken); 0 reserves none.
	Tokens int64
	// Above makes the tokens of an OpToken larger than this number.
	Above int64

	// Err is why the operation has no answer. Its effect is then unknown.
	Err error
	// Final: asking again would meet the same Err (a wrong password, a key of another type).
	Final bool
	// OK: the key is the owner's (OpAcquire, OpRenew, OpToken, OpProve), or was and has been let go (OpRelease).
	OK bool
	// Busy is, for a refused OpAcquire, the key that was taken: Key or one of More.
	Busy string
	// Remaining is, for a refused OpAcquire and for OpProve, how long the present hold will last if nobody renews it. 0
	// means that it is not known.
	Remaining time.Duration
	// Foreign: the present holder is no latchkey process and will not wake anybody.
	Foreign bool
	// Ticket is, for a refused OpAcquire with Queue, the place in the queue: the same as long as the place is kept,
	// another one each time the owner has to join anew. It is never 0 in a store with the Push capability, and always 0 in
	// one with Hints.
	Ticket int64
	// Token is the first of the fencing tokens that were reserved.
	Token int64
}

// Reset clears the answer, so that the operation can be asked again.
func (o *Op) Reset() {
	o.Err, o.Final, o.OK, o.Busy, o.Remaining, o.Foreign, o.Ticket, o.Token = nil, false, false, "", 0, false, 0, 0
}

// OwnerPrefix begins every owner that [Locks] makes: a store tells by it whether a holder is a latchkey process, which
// wakes those who queue, or some other library's.
const OwnerPrefix = "lk:"

// Push is news from the store.
type Push struct {
	// Owner has been granted the lock it queued for with this Ticket. If the Ticket is 0 nothing has been granted: it is
	// a hint that asking again now may succeed. Owner is empty in a Push that is about the connection.
	Owner  string
	Ticket int64
	// Broken: the connection that carries pushes was lost; some may be missing.
	Broken bool
}
