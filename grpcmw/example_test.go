package grpcmw_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

// call stands for a client's call in the examples.
func call(unary grpc.UnaryServerInterceptor, method string, req any) {
	_, err := unary(context.Background(), req, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
		if lease, ok := latchkey.LeaseFrom(ctx); ok {
			fmt.Println("runs under", lease.Keys())
		} else {
			fmt.Println("runs without a lock")
		}
		return nil, nil
	})
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleServerOptions() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	rules := []grpcmw.Option{
		grpcmw.Method(testpb.Shop_Reserve_FullMethodName, "sku:#{map(req.items, .sku)}"),
		grpcmw.Service("latchkey.test.v1.Shop", "order:#{req.order_id}"),
	}
	server := grpc.NewServer(grpcmw.ServerOptions(locks, rules...)...)
	defer server.Stop()

	set, _ := grpcmw.Rules(locks, rules...) // to call it without a network
	unary := set.Unary()
	req := &testpb.ReserveRequest{OrderId: "42", Items: []*testpb.Item{{Sku: "rum"}, {Sku: "gin"}}}
	call(unary, testpb.Shop_Reserve_FullMethodName, req)
	call(unary, testpb.Shop_Cancel_FullMethodName, req)
	call(unary, testpb.Shop_Cancel_FullMethodName, &testpb.ReserveRequest{})
	call(unary, testpb.Annotated_Reserve_FullMethodName, req)
	// Output:
	// runs under [sku:gin sku:rum]
	// runs under [order:42]
	// rpc error: code = InvalidArgument desc = the request does not say what to lock
	// runs without a lock
}

// The .proto file says:
//
//	rpc Reserve(ReserveRequest) returns (ReserveResponse) {
//	  option (latchkey.v1.lock) = { key: "order:#{req.order_id}" wait: "3s" };
//	}
func ExampleFromAnnotations() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	rules, _ := grpcmw.Rules(locks, grpcmw.FromAnnotations())
	unary := rules.Unary() // a server gets rules.ServerOptions()

	call(unary, testpb.Annotated_Reserve_FullMethodName, &testpb.ReserveRequest{OrderId: "42"})
	call(unary, testpb.Annotated_Plain_FullMethodName, &testpb.ReserveRequest{OrderId: "42"})
	// Output:
	// runs under [order:42]
	// runs without a lock
}

// Rules that come from configuration return an error that says what is wrong with them.
func ExampleRules() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	_, err := grpcmw.Rules(locks, grpcmw.Method(testpb.Shop_Reserve_FullMethodName, "order:#{req.order_di}"))
	fmt.Println(err)
	// Output:
	// grpcmw: /latchkey.test.v1.Shop/Reserve: latchkey: key template: latchkey.test.v1.ReserveRequest has no field order_di (1:13)
	//  | order:#{req.order_di}
	//  | ............^
	// hint: did you mean order_id?
}
