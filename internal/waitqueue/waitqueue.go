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
	shown       bool // present is what the one ahead has there
}

type waiter[B any] struct {
	baton      chan B
	timer      *time.Timer // nil until somebody waits with a bound
	prev, next *waiter[B]
	queued     bool
	looks      bool // only wants to know what the one ahead has there
	saw        bool // somebody ahead has shown something
	away       bool // was sent away: the turn is not its
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

// Look takes the turn of a key that nobody uses. Otherwise it returns nil and what the one ahead shows, once it shows
// anything; the turn is taken if the one ahead has left by then without having shown anything. It gives up and returns nil
// and the zero value when ctx ends or wait is over.
func (t *Table[B]) Look(ctx context.Context, key string, wait time.Duration) (turn *Turn[B], present B) {
	s := t.shard(key)
	s.mu.Lock()
	turn = s.keys[key]
	switch {
	case turn == nil:
		turn = s.open(key)
		s.mu.Unlock()
		return turn, present
	case turn.shown:
		present = turn.present
		s.mu.Unlock()
		return nil, present
	}
	turn, present, _ = t.queue(ctx, s, turn, wait, true)
	return turn, present
}

// Enter waits for the turn of a key and returns it with the baton that was left there; the zero baton if nobody
// used the key. It gives up its place and returns nil, and what the one ahead showed, when ctx ends or wait is over; a
// negative wait has no end. A turn that crosses the end of the wait is taken: what to do with it is the caller's decision.
// Whoever is sent away gets no turn, but what the one who did so left. saw reports whether anybody ahead showed something
// meanwhile.
func (t *Table[B]) Enter(ctx context.Context, key string, wait time.Duration) (turn *Turn[B], baton B, saw bool) {
	s := t.shard(key)
	s.mu.Lock()
	turn = s.keys[key]
	if turn == nil {
		turn = s.open(key)
		s.mu.Unlock()
		return turn, baton, false
	}
	return t.queue(ctx, s, turn, wait, false)
}

// TryEnter takes the turn of a key that nobody uses. It returns nil if somebody does.
func (t *Table[B]) TryEnter(key string) *Turn[B] {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] != nil {
		return nil
	}
	return s.open(key)
}

// queue waits in the queue of a turn. It is called with the shard's mutex, and unlocks it.
func (*Table[B]) queue(
	ctx context.Context, s *shard[B], turn *Turn[B], wait time.Duration, looks bool,
) (_ *Turn[B], baton B, saw bool) {
	w := s.free.Get().(*waiter[B]) //nolint:forcetypeassert // nothing else is in the pool
	w.looks, w.saw, w.away = looks, turn.shown, false
	turn.push(w)
	s.mu.Unlock()
	defer s.free.Put(w)

	late := w.start(wait)
	select {
	case baton = <-w.baton:
		w.stop(wait)
		return w.turn(turn), baton, w.saw
	case <-ctx.Done():
		w.stop(wait)
	case <-late:
	}

	s.mu.Lock()
	if w.queued {
		turn.remove(w)
		present := turn.present
		s.mu.Unlock()
		return nil, present, w.saw
	}
	s.mu.Unlock()
	baton = <-w.baton
	return w.turn(turn), baton, w.saw
}

// turn is what the waiter got: nothing, if it was sent away.
func (w *waiter[B]) turn(t *Turn[B]) *Turn[B] {
	if w.away {
		return nil
	}
	return t
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

// Show tells those who come to the key, or have come for a look, what its user has there. It stands until the turn is left
// without a baton.
func (t *Turn[B]) Show(present B) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	t.present, t.shown = present, true
	for w := t.first; w != nil; {
		next := w.next
		w.saw = true
		if w.looks {
			t.sendAway(w, present)
		}
		w = next
	}
}

// Hide takes back what was shown: it is not known any more.
func (t *Turn[B]) Hide() {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	t.hide()
}

func (t *Turn[B]) hide() {
	var none B
	t.present, t.shown = none, false
}

// sendAway ends the wait of somebody in the queue. The shard's mutex is held; the channel has room.
func (t *Turn[B]) sendAway(w *waiter[B], baton B) {
	t.remove(w)
	w.away = true
	w.baton <- baton
}

// Dismiss ends the turn and sends everybody away who waits for it, with the baton.
func (t *Turn[B]) Dismiss(baton B) {
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	for t.first != nil {
		t.sendAway(t.first, baton)
	}
	s.close(t)
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

// Leave ends the turn: the next in line goes ahead without a baton; if there is none the key is forgotten.
func (t *Turn[B]) Leave() {
	s := t.shard
	s.mu.Lock()
	w := t.first
	if w == nil {
		s.close(t)
		s.mu.Unlock()
		return
	}
	t.hide()
	t.remove(w)
	s.mu.Unlock()
	var none B
	w.baton <- none
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
