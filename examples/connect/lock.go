package main

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/latchkey-go/latchkey/grpcmw"
)

// Locked runs the unary methods of Connect services under the locks that grpcmw's rules give them: rules in code as well
// as annotations in the .proto file. It is the whole recipe; copy it.
func Locked(rules *grpcmw.RuleSet) connect.UnaryInterceptorFunc {
	locked := rules.Unary()
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if req.Spec().IsClient {
				return next(ctx, req)
			}
			md := make(metadata.MD) // what md["…"] in a template looks into
			for name, values := range req.Header() {
				md[strings.ToLower(name)] = values
			}
			info := &grpc.UnaryServerInfo{FullMethod: req.Spec().Procedure}
			resp, err := locked(metadata.NewIncomingContext(ctx, md), req.Any(), info, func(ctx context.Context, _ any) (any, error) {
				return next(ctx, req)
			})
			if err != nil {
				return nil, connectError(err)
			}
			return resp.(connect.AnyResponse), nil //nolint:forcetypeassert // it is what next returned
		}
	}
}

// connectError makes a Connect error of the status that a lock's answer has, details included. The method's own error
// is none and passes as it is.
func connectError(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	out := connect.NewError(connect.Code(st.Code()), statusError(st.Message()))
	for _, d := range st.Details() {
		if msg, ok := d.(proto.Message); ok {
			if detail, err := connect.NewErrorDetail(msg); err == nil {
				out.AddDetail(detail)
			}
		}
	}
	return out
}

type statusError string

func (s statusError) Error() string { return string(s) }
