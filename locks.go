package latchkey

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/batch"
	"github.com/latchkey-go/latchkey/internal/keyenc"
	"github.com/latchkey-go/latchkey/internal/waitqueue"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Locks makes locks in one store and namespace. It is safe for concurrent use; a process needs one per store. Create it
// with [New].
type Locks struct {
	store     Store
	caps      Capabilities
	prefix    string // namespace and colon
	opTimeout time.Duration
	observer  Observer
	ctxVars   map[string]ctxVar
	defaults  holdConfig

	turns *waitqueue.Table[*grant]
	dog   *watchdog.Dog
	undo  undoer
	lines *lines
	asks  sync.Pool // *[1]*Op
	bells sync.Pool // chan struct{}
	ids   ownerSource

	waiting struct {
		sync.Mutex
		owners map[string]*grant
		stop   func()
	}
	closed atomic.Bool
}

// New returns locks that live in the given store. Options that take a hold, such as [Wait], set the default for every
// lock made from it. New panics if the store is nil or an option is wrong, as these are mistakes in the program.
func New(store Store, opts ...LocksOption) *Locks {
	if isNil(store) {
		panic("latchkey: New: the store is nil; pass memstore.New() or redisstore.New(client)")
	}
	if !reflect.TypeOf(store).Comparable() {
		panic(fmt.Sprintf("latchkey: New: store type %T is not comparable; "+
			"use a pointer, so that two Locks can tell whether they share a store", store))
	}
	c := locksConfig{
		namespace: defaultNamespace,
		opTimeout: defaultOpTimeout,
		hold:      holdConfig{lease: defaultLease},
	}
	for i, o := range opts {
		if isNil(o) {
			panic(fmt.Sprintf("latchkey: New: option %d is nil; leave it out", i+1))
		}
		o.applyLocks(&c)
	}
	caps := store.Capabilities()
	c.errs = append(c.errs, c.hold.check(caps)...)
	if err := errors.Join(c.errs...); err != nil {
		panic(err.Error())
	}
	l := &Locks{
		store: store, caps: caps, prefix: c.namespace + ":", opTimeout: c.opTimeout,
		observer: c.observer, ctxVars: c.ctxVars, defaults: c.hold,
		turns: waitqueue.New[*grant](),
	}
	l.dog = watchdog.New(l.renew, l.expired)
	l.undo.l = l
	// Those behind requests that hang must get through within their own op timeout.
	l.lines = newLines(store, func() *batch.Batcher[*asked] { return batch.New(l.trip, l.lookAt, c.opTimeout/4) })
	l.asks.New = func() any { return &[1]*Op{new(Op)} }
	l.bells.New = func() any { return make(chan struct{}, 1) }
	l.waiting.owners = make(map[string]*grant)
	return l
}

// check returns what is wrong with the options of a hold in a store with these capabilities.
func (c *holdConfig) check(caps Capabilities) []error {
	errs := slices.Clone(c.errs)
	if c.mint && !caps.Tokens {
		errs = append(errs, errors.New("latchkey: MintToken: this store mints no tokens; leave the option out or use another store"))
	}
	return errs
}

// Close ends the subscription over which the store wakes waiters. Locks that are held stay held and renewed until they
// are released; callers that wait go on by polling; new locks are refused with [ErrStore]. The store's client is the
// caller's: close it after the Locks, when nothing is held any more. Close may be called more than once.
func (l *Locks) Close() {
	l.closed.Store(true)
	l.waiting.Lock()
	stop := l.waiting.stop
	l.waiting.stop = nil
	l.waiting.Unlock()
	if stop != nil {
		stop()
	}
}

// Acquire takes the lock of a key and returns a lease on it, which the caller must release. It is for holds that do not
// fit one function; where they do, wrap the function with [Locks.WithLock] instead, and the lease can't be forgotten.
//
// The key is final, not a template; [KeyExpr.Render] makes one. Unless [MaxHold] or [NoMaxHold] is given the lease ends
// after ten minutes. If ctx carries a lease on the same key already, the new lease enters it.
//
// Errors match [ErrBusy], [ErrKey] or [ErrStore], or describe an option that is wrong. A wait that was ended by ctx also
// matches context.Cause(ctx).
func (l *Locks) Acquire(ctx context.Context, key string, opts ...HoldOption) (*Lease, error) {
	r := request{holdConfig: l.defaults}
	for i, o := range opts {
		if isNil(o) {
			return nil, fmt.Errorf("latchkey: Acquire: option %d is nil; leave it out", i+1)
		}
		o.applyHold(&r.holdConfig)
	}
	if err := errors.Join(r.check(l.caps)...); err != nil {
		return nil, err
	}
	if r.maxHold == 0 && !r.noBound && !r.fixed {
		r.maxHold = defaultHandleHold
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return l.acquire(ctx, l.prefix+key, nil, &r)
}

// Held reports whether ctx carries a lease on the key that is still held: whether the code that asks runs under the
// lock, as far as this process can tell. It does not ask the store. The key has no namespace.
func (l *Locks) Held(ctx context.Context, key string) bool {
	now := watchdog.Now()
	for c := carried(ctx); c != nil; c = c.outer {
		if c.lease.released.Load() {
			continue
		}
		for _, h := range c.lease.holds {
			if h.g.locks.store == l.store && h.g.full == l.prefix+key && h.live(now) {
				return true
			}
		}
	}
	return levelOf(ctx).holds(l.store, l.prefix+key, now)
}

// checkKey refuses keys that a template would never render to.
func checkKey(key string) error {
	reason := ""
	switch {
	case strings.TrimSpace(key) == "":
		reason = "the key is blank"
	case len(key) > keyenc.MaxLen:
		reason = fmt.Sprintf("the key has %d bytes; at most %d are allowed", len(key), keyenc.MaxLen)
	default:
		for _, r := range key {
			if r < ' ' || r == 0x7f || r == '{' || r == '}' {
				reason = fmt.Sprintf("the key contains %q", r)
				break
			}
		}
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; render keys with CompileKey and KeyExpr.Render, which encode what needs to be", ErrKey, reason)
}

// ownerSource makes owner ids: 128 random bits each, read from the system in larger pieces.
type ownerSource struct {
	mu   sync.Mutex
	buf  [1024]byte
	left int
}

const ownerBytes = 16

func (l *Locks) newOwner() string {
	s := &l.ids
	var id [len(OwnerPrefix) + 22]byte
	copy(id[:], OwnerPrefix)
	s.mu.Lock()
	if s.left < ownerBytes {
		_, _ = rand.Read(s.buf[:]) // never fails: crypto/rand ends the program instead
		s.left = len(s.buf)
	}
	random := s.buf[s.left-ownerBytes : s.left]
	base64.RawURLEncoding.Encode(id[len(OwnerPrefix):], random)
	clear(random)
	s.left -= ownerBytes
	s.mu.Unlock()
	return string(id[:])
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice, reflect.Interface:
		return rv.IsNil()
	default:
		return false
	}
}
