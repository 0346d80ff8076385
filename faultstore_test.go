package latchkey_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

var errInjected = errors.New("injected")

// faultStore is a memstore that a test can break. Unlike a memstore it is not instant, so that operations take the way
// through batches and timeouts that those of a server take.
type faultStore struct {
	*memstore.Store

	mu sync.Mutex
	// before, if set, is asked before an operation reaches the store: an error keeps it from there.
	before func(op *latchkey.Op) error
	asked  map[latchkey.OpKind]int
	caps   func(*latchkey.Capabilities)
}

func newFaultStore() *faultStore {
	return &faultStore{Store: memstore.New(), asked: make(map[latchkey.OpKind]int)}
}

func (s *faultStore) Capabilities() latchkey.Capabilities {
	caps := s.Store.Capabilities()
	caps.Instant = false
	if s.caps != nil {
		s.caps(&caps)
	}
	return caps
}

func (s *faultStore) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		s.mu.Lock()
		s.asked[op.Kind]++
		before, store := s.before, s.Store
		s.mu.Unlock()
		if before != nil {
			if err := before(op); err != nil {
				op.Err = err
				continue
			}
		}
		store.Do(ctx, []*latchkey.Op{op})
	}
}

func (s *faultStore) Listen(heard func(latchkey.Push)) (stop func()) {
	s.mu.Lock()
	store := s.Store
	s.mu.Unlock()
	return store.Listen(heard)
}

// breakBefore changes the fault while the store is in use.
func (s *faultStore) breakBefore(f func(op *latchkey.Op) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// forget makes the store lose everything, like a server that is restarted empty.
func (s *faultStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = memstore.New()
}

func (s *faultStore) count(kind latchkey.OpKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[kind]
}

// free reports whether nobody holds the key, by taking it for a moment.
func free(t *testing.T, store latchkey.Store, key string) bool {
	t.Helper()
	op := &latchkey.Op{Kind: latchkey.OpAcquire, Key: "latchkey:" + key, Owner: "lk:probe", Lease: 1_000_000_000}
	store.Do(context.Background(), []*latchkey.Op{op})
	if op.Err != nil {
		t.Fatal(op.Err)
	}
	if !op.OK {
		return false
	}
	store.Do(context.Background(), []*latchkey.Op{{Kind: latchkey.OpRelease, Key: op.Key, Owner: op.Owner}})
	return true
}
