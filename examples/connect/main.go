// Command connect shows the recipe for connectrpc.com/connect: grpcmw's rules, in an interceptor (lock.go).
//
//	go run ./examples/connect
//
// Two callers pay one order at the same moment. The first is in; the second is told that somebody is.
//
//	first:  paid 3 of order 42
//	second: aborted: somebody else is at work on this (LOCK_BUSY)
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/orders/orderspb"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
}

// pay is a method of a Connect service.
type pay = func(context.Context, *connect.Request[orderspb.PayRequest]) (*connect.Response[orderspb.Order], error)

// serve serves one method under the lock that its annotation in orders.proto gives it, but without the wait that it
// allows, so that the second caller has its answer at once.
func serve(locks *latchkey.Locks, method pay) (*httptest.Server, *connect.Client[orderspb.PayRequest, orderspb.Order], error) {
	rules, err := grpcmw.Rules(locks, grpcmw.Method(orderspb.Orders_Pay_FullMethodName, "order:#{req.order_id}"))
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(orderspb.Orders_Pay_FullMethodName, connect.NewUnaryHandler(
		orderspb.Orders_Pay_FullMethodName, method, connect.WithInterceptors(Locked(rules))))
	srv := httptest.NewServer(mux)
	client := connect.NewClient[orderspb.PayRequest, orderspb.Order](srv.Client(), srv.URL+orderspb.Orders_Pay_FullMethodName)
	return srv, client, nil
}

func run(ctx context.Context, stdout io.Writer) error {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	inside, finish := make(chan struct{}), make(chan struct{})
	srv, client, err := serve(locks, func(
		_ context.Context, r *connect.Request[orderspb.PayRequest],
	) (*connect.Response[orderspb.Order], error) {
		close(inside)
		<-finish
		return connect.NewResponse(&orderspb.Order{OrderId: r.Msg.GetOrderId(), Paid: r.Msg.GetAmount()}), nil
	})
	if err != nil {
		return err
	}
	defer srv.Close()

	call := func() (*connect.Response[orderspb.Order], error) {
		return client.CallUnary(ctx, connect.NewRequest(&orderspb.PayRequest{OrderId: "42", Amount: 3}))
	}
	var first *connect.Response[orderspb.Order]
	var firstErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		first, firstErr = call()
	}()
	<-inside
	_, second := call()
	close(finish)
	<-done
	if firstErr != nil {
		return firstErr
	}
	fmt.Fprintf(stdout, "first:  paid %d of order %s\n", first.Msg.GetPaid(), first.Msg.GetOrderId())
	fmt.Fprintf(stdout, "second: %v (%s)\n", second, reason(second))
	return nil
}

// reason returns the reason in the ErrorInfo of a Connect error.
func reason(err error) string {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return ""
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if info, ok := v.(*errdetails.ErrorInfo); ok {
				return info.GetReason()
			}
		}
	}
	return ""
}
