package grpcmw_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// A call costs at most ten allocations beyond those of its key: here the key is fixed, and costs none.
func TestAllocationsPerCall(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	unary := grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(reserve, "order"))
	handler := func(context.Context, any) (any, error) { return nil, nil }
	info := &grpc.UnaryServerInfo{FullMethod: reserve}
	n := testing.AllocsPerRun(500, func() {
		if _, err := unary(t.Context(), zebra, info, handler); err != nil {
			t.Error(err)
		}
	})
	if n > 10 || n < 1 {
		t.Errorf("%v allocations", n)
	}
}
