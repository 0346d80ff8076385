package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/orders/orderspb"
	"github.com/latchkey-go/latchkey/grpcmw"
)

// grpcFace serves the shop over gRPC. Which methods lock what is in the .proto file. m is nil for the control: no lock,
// no transaction.
func grpcFace(shop *Shop, locks *latchkey.Locks, m *latchkey.TxManager, think time.Duration) *grpc.Server {
	var opts []grpc.ServerOption
	if m != nil {
		opts = grpcmw.ServerOptions(locks, grpcmw.FromAnnotations(latchkey.Transactional(m)))
	}
	server := grpc.NewServer(opts...)
	orderspb.RegisterOrdersServer(server, ordersServer{shop: shop, think: think})
	reflection.Register(server) // for grpcurl
	return server
}

type ordersServer struct {
	orderspb.UnimplementedOrdersServer
	shop  *Shop
	think time.Duration
}

// Pay implements orderspb.OrdersServer.
func (s ordersServer) Pay(ctx context.Context, r *orderspb.PayRequest) (*orderspb.Order, error) {
	return toProto(s.shop.Pay(ctx, r.GetOrderId(), r.GetAmount(), s.think))
}

// Get implements orderspb.OrdersServer.
func (s ordersServer) Get(ctx context.Context, r *orderspb.GetRequest) (*orderspb.Order, error) {
	return toProto(s.shop.Get(ctx, r.GetOrderId()))
}

func toProto(o Order, err error) (*orderspb.Order, error) {
	switch {
	case errors.Is(err, errNoOrder):
		return nil, status.Error(codes.NotFound, err.Error())
	case errors.Is(err, errTooMuch):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, status.Error(codes.Internal, "the payment failed")
	}
	return &orderspb.Order{OrderId: o.ID, Total: o.Total, Paid: o.Paid}, nil
}
