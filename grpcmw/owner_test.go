package grpcmw_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
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
func TestNoMetadataChoosesTheOwner(t *testing.T) {
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
	values := []string{owner, "mine", strings.Repeat("ab", 8) + "." + latchkey.Proof("mine"), latchkey.Proof(owner), "order:1"}
	keys := []string{"latchkey-lease", "latchkey-owner", "latchkey-token", "x-lock-owner", "authorization", "x-request-id"}
	call := func(accept bool) func(order, key, value string) error {
		rules := []grpcmw.Option{grpcmw.Method(reserve, "order:#{req.order_id}")}
		if accept {
			rules = append(rules, grpcmw.AcceptLeases())
		}
		server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(locks, rules...)))
		testpb.RegisterShopServer(server, &shop{unary: sayKeys})
		client := testpb.NewShopClient(serve(t, server))
		return func(order, key, value string) error {
			_, err := client.Reserve(metadata.AppendToOutgoingContext(t.Context(), key, value), &testpb.ReserveRequest{OrderId: order})
			return err
		}
	}
	calls := map[string]func(order, key, value string) error{"closed": call(false), "open": call(true)}
	let := make(map[string]bool)
	for name, call := range calls {
		for _, key := range keys {
			for _, value := range values {
				if err := call("1", key, value); status.Code(err) != codes.Aborted {
					t.Errorf("%s with %s: %s: %v, though somebody else holds the lock", name, key, value, err)
				}
				if err := call("2", key, value); err != nil {
					t.Errorf("%s with %s: %s: %v", name, key, value, err)
				}
				chosen := store.holder()
				if strings.Contains(chosen, value) || strings.Contains(value, chosen) {
					t.Errorf("%s with %s: %s: the owner is %q", name, key, value, chosen)
				}
				let[chosen] = true
			}
		}
	}
	if want := len(calls) * len(keys) * len(values); len(let) != want {
		t.Errorf("%d owners for %d calls that were let in", len(let), want)
	}
	// The control: what does open the lock, where it is welcome, and only there.
	for name, want := range map[string]codes.Code{"open": codes.OK, "closed": codes.Aborted} {
		if err := calls[name]("1", "latchkey-lease", proof); status.Code(err) != want {
			t.Errorf("control: %s with the caller's proof: %v", name, err)
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
