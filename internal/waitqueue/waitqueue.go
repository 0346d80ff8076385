// Package waitqueue lets one caller per key go ahead and queues the others, first come first served.
//
// Whoever is ahead leaves a baton for the next one: a value that says what the next one inherits. The package
// knows nothing of locks or stores; it decides only whose turn it is within this process.
package waitqueue

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// shards keeps callers of different keys from meeting at one mutex.
	shards = 64
	// roomy is how many keys at once make a shard's map worth replacing once it is empty: maps do not shrink.
	roomy = 64
)

// Table holds the turns of all keys in use. A key that nobody uses takes no memory.
type Table[B any] struct {
	seed   maphash.Seed
	shards [shards]shard[B]
	free   sync.Pool // *waiter[B]
}

type shard[B any] struct {
	mu    sync.Mutex
	keys  map[string]*Turn[B]
	high  int
	spare *Turn[B] // the last turn that ended: one key after the other allocates none
	free  *sync.Pool
	_     [24]byte // a cache line of its own
}

// Turn is the right to go ahead with one key. It belongs to one caller at a time and is void once left.
type Turn[B any] struct {
	shard       *shard[B]
	key         string
	first, last *waiter[B]
	waiting     int
	present     B
}

type waiter[B any] struct {
	baton      chan B
	timer      *time.Timer // nil until somebody waits with a bound
	prev, next *waiter[B]
	queued     bool
}

// New returns an empty table.
func New[B any]() *Table[B] {
	t := &Table[B]{seed: maphash.MakeSeed()}
	t.free.New = func() any { return &waiter[B]{baton: make(chan B, 1)} }
	for i := range t.shards {
		t.shards[i].keys = make(map[string]*Turn[B])
		t.shards[i].free = &t.free
	}
	return t
}

func (t *Table[B]) shard(key string) *shard[B] {
	return &t.shards[maphash.String(t.seed, key)%shards]
}

// TryEnter takes the turn of a key that nobody uses. Otherwise it returns nil and what the one ahead showed.
func (t *Table[B]) TryEnter(key string) (turn *Turn[B], present B) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.keys[key]; q != nil {
		return nil, q.present
	}
	return s.open(key), present
}

// Enter waits for the turn of a key and returns it with the baton that was left there; the zero baton if nobody
// used the key. It gives up its place and returns nil, and what the one ahead showed, when ctx ends or wait is over; a
// negative wait has no end. A turn that crosses the end of the wait is taken: what to do with it is the caller's decision.
func (t *Table[B]) Enter(ctx context.Context, key string, wait time.Duration) (turn *Turn[B], baton B) {
	s := t.shard(key)
	s.mu.Lock()
	turn = s.keys[key]
	if turn == nil {
		turn = s.open(key)
		s.mu.Unlock()
		return turn, baton
	}
	w := s.free.Get().(*waiter[B]) //nolint:forcetypeassert // nothing else is in the pool
	turn.push(w)
	s.mu.Unlock()
	defer s.free.Put(w)

	late := w.start(wait)
	select {
	case baton = <-w.baton:
		w.stop(wait)
		return turn, baton
	case <-ctx.Done():
		w.stop(wait)
	case <-late:
	}

	s.mu.Lock()
	if w.queued {
		turn.remove(w)
		present := turn.present
		s.mu.Unlock()
		return nil, present
	}
	s.mu.Unlock()
	return turn, <-w.baton
}

// start returns a channel that delivers when wait is over; nil, which never does, if wait is negative.
func (w *waiter[B]) start(wait time.Duration) <-chan time.Time {
	if wait < 0 {
		return nil
	}
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
	} else {
		w.timer.Reset(wait)
	}
	return w.timer.C
}

func (w *waiter[B]) stop(wait time.Duration) {
	if wait >= 0 {
		w.timer.Stop()
	}
}

// Keys returns how many keys are in use.
func (t *Table[B]) Keys() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.keys)
		s.mu.Unlock()
	}
	return n
}

// Waiting returns how many callers queue for a key.
func (t *Table[B]) Waiting(key string) int {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn := s.keys[key]; turn != nil {
		return turn.waiting
	}
	return 0
}

// Show tells those who come to the key what its user has there.
func (t *Turn[B]) Show(present B) {
	t.shard.mu.Lock()
	t.present = present
	t.shard.mu.Unlock()
}

// Pass hands the turn and the baton to the next in line. It returns false, and leaves the turn with the caller,
// if nobody waits.
func (t *Turn[B]) Pass(baton B) bool {
	t.shard.mu.Lock()
	w := t.first
	if w == nil {
		t.shard.mu.Unlock()
		return false
	}
	t.remove(w)
	t.shard.mu.Unlock()
	w.baton <- baton
	return true
}

// Leave ends the turn: the next in line goes ahead with the baton; if there is none the key is forgotten.
func (t *Turn[B]) Leave(baton B) {
	s := t.shard
	s.mu.Lock()
	w := t.first
	if w == nil {
		s.close(t)
		s.mu.Unlock()
		return
	}
	t.remove(w)
	s.mu.Unlock()
	w.baton <- baton
}

func (s *shard[B]) open(key string) *Turn[B] {
	t := s.spare
	if t == nil {
		t = &Turn[B]{shard: s}
	}
	s.spare = nil
	t.key = key
	s.keys[key] = t
	s.high = max(s.high, len(s.keys))
	return t
}

func (s *shard[B]) close(t *Turn[B]) {
	delete(s.keys, t.key)
	if len(s.keys) == 0 && s.high > roomy {
		s.keys, s.high = make(map[string]*Turn[B]), 0
	}
	*t = Turn[B]{shard: s}
	s.spare = t
}

func (t *Turn[B]) push(w *waiter[B]) {
	w.prev, w.next, w.queued = t.last, nil, true
	if t.last == nil {
		t.first = w
	} else {
		t.last.next = w
	}
	t.last = w
	t.waiting++
}

func (t *Turn[B]) remove(w *waiter[B]) {
	if w.prev == nil {
		t.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		t.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	t.waiting--
}
