// Package memstore keeps locks in the memory of one process.
//
// It is for tests, examples and programs that run once. It does everything that a lock shared by many processes does,
// except being shared: leases expire, waiters are woken, fencing tokens grow.
package memstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
)

// sweepEvery is how many acquires pass before expired locks that nobody asked for again are forgotten.
const sweepEvery = 1024

// Store is a [latchkey.Store] in memory. It is safe for concurrent use and takes memory only for locks that are held or
// queued for. The zero Store is not usable; see [New].
type Store struct {
	start time.Time

	mu        sync.Mutex
	locks     map[string]lock
	high      int // the most locks since the map was made
	acquires  int
	token     int64
	ticket    int64
	barred    map[bar]time.Duration // until when, since start
	listeners map[*listener]struct{}
	pushes    []latchkey.Push // to be told when the mutex is free again
	pushed    atomic.Bool     // there are some
}

var _ latchkey.Store = (*Store)(nil)

var errNoOwner = errors.New("memstore: the owner is empty; an owner is a random text")

type lock struct {
	owner string
	end   time.Duration // since start
	queue []waiter
}

// bar is an owner who may not have a key any more.
type bar struct{ key, owner string }

type waiter struct {
	owner  string
	grant  time.Duration
	ticket int64
}

type listener struct{ heard func(latchkey.Push) }

// New returns an empty store.
func New() *Store {
	return &Store{
		start: time.Now(), locks: make(map[string]lock), barred: make(map[bar]time.Duration),
		listeners: make(map[*listener]struct{}),
	}
}

// Capabilities implements [latchkey.Store]: everything, instantly.
func (s *Store) Capabilities() latchkey.Capabilities {
	return latchkey.Capabilities{Push: true, Tokens: true, Proofs: true, ManyKeys: true, Bars: true, Instant: true}
}

// Listen implements [latchkey.Store].
func (s *Store) Listen(heard func(latchkey.Push)) (stop func()) {
	l := &listener{heard}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}
}

// Do implements [latchkey.Store].
func (s *Store) Do(_ context.Context, ops []*latchkey.Op) {
	s.do(ops)
	s.tell()
}

func (s *Store) do(ops []*latchkey.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	for _, op := range ops {
		op.Reset()
		if op.Ctx != nil && op.Ctx.Err() != nil {
			op.Err = context.Cause(op.Ctx)
			continue
		}
		if op.Owner == "" { // which is how a free lock is kept
			if op.Kind == latchkey.OpAcquire {
				op.Err, op.Final = errNoOwner, true
			}
			continue
		}
		switch op.Kind {
		case latchkey.OpAcquire:
			s.acquire(op, now)
		case latchkey.OpRenew:
			s.renew(op, now)
		case latchkey.OpRelease:
			s.release(op, now)
		case latchkey.OpToken:
			if op.OK = s.holder(op.Key, now) == op.Owner; op.OK {
				s.token = max(s.token, op.Above)
				op.Token = s.mint(op.Tokens)
			}
		case latchkey.OpProve:
			owner := s.holder(op.Key, now)
			if op.OK = owner != "" && latchkey.Proof(owner) == op.Owner; op.OK {
				op.Remaining = s.locks[op.Key].end - now
			}
		}
	}
}

// Len returns how many locks are remembered: those that are held or queued for, and expired ones until they are
// swept.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.locks)
}

// holder returns the owner of a key, "" if it is free.
func (s *Store) holder(key string, now time.Duration) string {
	if l := s.locks[key]; l.end > now && !s.isBarred(key, l.owner, now) {
		return l.owner
	}
	return ""
}

func (s *Store) isBarred(key, owner string, now time.Duration) bool {
	return len(s.barred) > 0 && s.barred[bar{key, owner}] > now
}

func (s *Store) acquire(op *latchkey.Op, now time.Duration) {
	s.sweep(now)
	l := s.locks[op.Key]
	if l.end <= now {
		l.owner = ""
	}
	if l.owner != "" && (l.owner == op.Prev || s.isBarred(op.Key, l.owner, now)) {
		s.next(&l, now)
	}
	if l.owner != "" && l.owner != op.Owner || s.isBarred(op.Key, op.Owner, now) {
		s.refuse(op, op.Key, &l, now)
		return
	}
	for _, key := range op.More {
		if owner := s.holder(key, now); owner != "" && owner != op.Owner || s.isBarred(key, op.Owner, now) {
			other := s.locks[key]
			s.refuse(op, key, &other, now)
			return
		}
	}
	l.leave(op.Owner)
	l.owner, l.end = op.Owner, now+op.Lease
	s.put(op.Key, l)
	for _, key := range op.More {
		more := s.locks[key]
		more.owner, more.end = op.Owner, now+op.Lease
		s.put(key, more)
	}
	op.OK = true
	if op.Tokens > 0 {
		op.Token = s.mint(op.Tokens)
	}
}

func (s *Store) refuse(op *latchkey.Op, key string, l *lock, now time.Duration) {
	op.Busy, op.Remaining = key, max(l.end-now, 0)
	if op.Queue && !s.isBarred(key, op.Owner, now) {
		op.Ticket = l.join(op, &s.ticket)
	}
	if key == op.Key {
		s.put(key, *l)
	}
}

func (s *Store) renew(op *latchkey.Op, now time.Duration) {
	if s.holder(op.Key, now) != op.Owner {
		return
	}
	l := s.locks[op.Key]
	l.end = now + op.Lease
	s.put(op.Key, l)
	op.OK = true
}

func (s *Store) release(op *latchkey.Op, now time.Duration) {
	if op.Bar > 0 {
		s.barred[bar{op.Key, op.Owner}] = now + op.Bar
	}
	l, known := s.locks[op.Key]
	if !known {
		return
	}
	if op.Leave {
		l.leave(op.Owner)
	}
	if op.OK = l.owner == op.Owner && l.end > now; op.OK {
		s.next(&l, now)
	}
	s.put(op.Key, l)
}

// next gives the lock to the first in the queue, or to nobody.
func (s *Store) next(l *lock, now time.Duration) {
	if len(l.queue) == 0 {
		l.owner, l.end = "", 0
		return
	}
	w := l.queue[0]
	l.queue = l.queue[1:]
	l.owner, l.end = w.owner, now+w.grant
	s.pushes = append(s.pushes, latchkey.Push{Owner: w.owner, Ticket: w.ticket})
	s.pushed.Store(true)
}

// tell delivers pushes, without the mutex: listeners have mutexes of their own.
func (s *Store) tell() {
	if !s.pushed.Load() {
		return
	}
	s.mu.Lock()
	pushes := s.pushes
	s.pushes = nil
	s.pushed.Store(false)
	all := make([]*listener, 0, len(s.listeners))
	for l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	for _, push := range pushes {
		for _, l := range all {
			l.heard(push)
		}
	}
}

// put remembers a lock that somebody holds or waits for, and forgets any other.
func (s *Store) put(key string, l lock) {
	if l.owner != "" || len(l.queue) > 0 {
		s.locks[key] = l
		s.high = max(s.high, len(s.locks))
		return
	}
	delete(s.locks, key)
	if len(s.locks) == 0 && s.high > sweepEvery {
		s.locks, s.high = make(map[string]lock), 0 // maps do not shrink
	}
}

// sweep forgets, from time to time, locks that have expired.
func (s *Store) sweep(now time.Duration) {
	if s.acquires++; s.acquires%max(sweepEvery, s.high) != 0 {
		return
	}
	for key, l := range s.locks {
		if l.end+time.Minute <= now {
			delete(s.locks, key)
		}
	}
	for b, end := range s.barred {
		if end <= now {
			delete(s.barred, b)
		}
	}
}

// mint reserves n tokens. One counter serves all keys; it starts at the clock, so that a new store goes on above an old
// one.
func (s *Store) mint(n int64) int64 {
	first := max(s.token+1, time.Now().UnixMicro())
	s.token = first + n - 1
	return first
}

func (l *lock) join(op *latchkey.Op, ticket *int64) int64 {
	for _, w := range l.queue {
		if w.owner == op.Owner {
			return w.ticket
		}
	}
	*ticket++
	l.queue = append(l.queue, waiter{op.Owner, op.Grant, *ticket})
	return *ticket
}

func (l *lock) leave(owner string) {
	for i, w := range l.queue {
		if w.owner == owner {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			return
		}
	}
}
