package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/orders/orderspb"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestTheSecondCallerIsToldThatTheOrderIsBusy(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := "first:  paid 3 of order 42\nsecond: aborted: somebody else is at work on this (LOCK_BUSY)\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

func TestAMethodsOwnErrorsAndMissingKeys(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	own := connect.NewError(connect.CodeNotFound, errors.New("own"))
	srv, client, err := serve(locks, func(
		ctx context.Context, r *connect.Request[orderspb.PayRequest],
	) (*connect.Response[orderspb.Order], error) {
		if !locks.Held(ctx, "order:"+r.Msg.GetOrderId()) {
			t.Error("not held")
		}
		return nil, own
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for order, want := range map[string]connect.Code{"1": connect.CodeNotFound, "": connect.CodeInvalidArgument} {
		_, err := client.CallUnary(t.Context(), connect.NewRequest(&orderspb.PayRequest{OrderId: order}))
		if connect.CodeOf(err) != want {
			t.Errorf("order %q: %v, want %v", order, err, want)
		}
	}
	if store.Len() != 0 {
		t.Errorf("%d locks are left", store.Len())
	}
}
