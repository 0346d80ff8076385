package httpmw_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// spy is a store that takes down who asked for locks.
type spy struct {
	*memstore.Store

	mu     sync.Mutex
	owners []string
}

func (s *spy) Do(ctx context.Context, ops []*latchkey.Op) {
	s.mu.Lock()
	for _, op := range ops {
		if op.Kind == latchkey.OpAcquire {
			s.owners = append(s.owners, op.Owner)
		}
	}
	s.mu.Unlock()
	s.Store.Do(ctx, ops)
}

// holder is who asked last.
func (s *spy) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners[len(s.owners)-1]
}

// Whoever could choose the owner could be the one that holds the lock already.
func TestNoHeaderChoosesTheOwner(t *testing.T) {
	store := &spy{Store: memstore.New()}
	locks, others := latchkey.New(store), latchkey.New(store)
	defer locks.Close()
	defer others.Close()
	held, err := others.Acquire(t.Context(), "order:1")
	if err != nil {
		t.Fatal(err)
	}
	owner := store.holder()
	proof := latchkey.ExportLeases(held.Context())
	mine := strings.Repeat("ab", 8) + "." + latchkey.Proof("mine")
	values := []string{owner, "mine", mine, latchkey.Proof(owner), "order:1", strings.Replace(proof, ".", ",", 1)}
	s := open(t, func(_ *shop, mux *http.ServeMux) {
		d := locks.WithLock("order:#{path.id}")
		mux.Handle("/closed/{id}", httpmw.New(d)(http.HandlerFunc(sayKeys)))
		mux.Handle("/open/{id}", httpmw.New(d, httpmw.AcceptLeases())(http.HandlerFunc(sayKeys)))
	})
	headers := []string{"Latchkey-Lease", "Latchkey-Owner", "Latchkey-Token", "X-Lock-Owner", "Authorization", "Cookie", "X-Request-Id",
		"Idempotency-Key", "Traceparent"}
	for _, name := range headers {
		for _, value := range values {
			for _, path := range []string{"/closed/", "/open/"} {
				if got := s.raw(t, "GET "+path+"1 HTTP/1.1\n"+name+": "+value); got.status != http.StatusConflict {
					t.Errorf("%s with %s: %s: %d %q, though somebody else holds the lock", path, name, value, got.status, got.body)
				}
				if got := s.raw(t, "GET "+path+"2 HTTP/1.1\n"+name+": "+value); got.status != http.StatusOK {
					t.Errorf("%s with %s: %s: %d %q", path, name, value, got.status, got.body)
				}
				if chosen := store.holder(); strings.Contains(chosen, value) || strings.Contains(value, chosen) {
					t.Errorf("%s with %s: %s: the owner is %q", path, name, value, chosen)
				}
			}
		}
	}
	// The control: what does open the lock, where it is welcome, and only there.
	for path, want := range map[string]int{"/open/1": http.StatusOK, "/closed/1": http.StatusConflict} {
		if got := s.raw(t, "GET "+path+" HTTP/1.1\nLatchkey-Lease: "+proof); got.status != want {
			t.Errorf("control: %s with the caller's proof: %d %q", path, got.status, got.body)
		}
	}
	seen := make(map[string]bool)
	for _, owner := range store.owners {
		seen[owner] = true
	}
	if len(seen) < len(headers)*len(values)*2 {
		t.Errorf("only %d owners for %d requests that were let in", len(seen), len(headers)*len(values)*2)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
