package latchkey_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// hintStore grants a lock to nobody when it is let go: it tells those who queue to ask again.
type hintStore struct {
	*memstore.Store

	mu     sync.Mutex
	heard  func(latchkey.Push)
	queue  map[string]bool // owners
	mute   bool
	hinted int
}

func (s *hintStore) Capabilities() latchkey.Capabilities { return latchkey.Capabilities{Hints: true} }

func (s *hintStore) Listen(heard func(latchkey.Push)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = heard
	return func() {}
}

func (s *hintStore) Do(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		queue := op.Queue
		op.Queue = false
		s.Store.Do(ctx, []*latchkey.Op{op})
		s.mu.Lock()
		if op.Kind == latchkey.OpAcquire && queue && !op.OK {
			s.queue[op.Owner] = true
		}
		s.mu.Unlock()
		if op.Kind == latchkey.OpRelease && op.OK {
			s.hint()
		}
	}
}

// hint tells everybody who queues to ask again.
func (s *hintStore) hint() {
	s.mu.Lock()
	owners := s.queue
	s.queue = make(map[string]bool)
	heard, mute := s.heard, s.mute
	s.hinted += len(owners)
	s.mu.Unlock()
	for owner := range owners {
		if !mute {
			heard(latchkey.Push{Owner: owner})
		}
	}
}

func TestAHintMakesTheWaiterAskAgainAndGrantsNothing(t *testing.T) {
	for name, mute := range map[string]bool{"hints": false, "control: no hint arrives": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hintStore{Store: memstore.New(), queue: make(map[string]bool), mute: mute}
				one, two := latchkey.New(store), latchkey.New(store)
				defer one.Close()
				defer two.Close()
				lease := acquire(t.Context(), t, one, "k")
				entered := make(chan time.Time, 1)
				go func() {
					next, err := two.Acquire(t.Context(), "k", latchkey.WaitForever())
					if err != nil {
						t.Error(err)
						return
					}
					entered <- time.Now()
					_ = next.Release(t.Context())
				}()
				synctest.Wait()
				store.hint() // too early: the lock is still held
				synctest.Wait()
				if len(entered) > 0 {
					t.Fatal("a hint was taken for a grant")
				}
				if store.hinted == 0 {
					t.Fatal("void: nobody queued")
				}
				if mute {
					// The waiter has to be in the queue again, as if it had heard.
					time.Sleep(600 * time.Millisecond)
				}
				let := time.Now()
				release(t, lease)
				if took := (<-entered).Sub(let); took > 0 != mute {
					t.Errorf("entered %v after the release; want at once only if hints arrive", took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
