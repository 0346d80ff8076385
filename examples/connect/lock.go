package main

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/latchkey-go/latchkey/grpcmw"
)

// Locked runs the methods of Connect services, streams too, under the locks that grpcmw's rules give them: rules in code as
// well as annotations in the .proto file. This file is the whole recipe; copy it.
func Locked(rules *grpcmw.RuleSet) connect.Interceptor {
	return locked{rules.Unary(), rules.Stream()}
}

type locked struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// WrapUnary implements connect.Interceptor.
func (l locked) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		info := &grpc.UnaryServerInfo{FullMethod: req.Spec().Procedure}
		resp, err := l.unary(withMetadata(ctx, req.Header()), req.Any(), info, func(ctx context.Context, _ any) (any, error) {
			return next(ctx, req)
		})
		if err != nil {
			return nil, connectError(err)
		}
		return resp.(connect.AnyResponse), nil //nolint:forcetypeassert // it is what next returned
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (l locked) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		inner := asGRPC{ctx: withMetadata(ctx, conn.RequestHeader()), conn: conn}
		info := &grpc.StreamServerInfo{FullMethod: conn.Spec().Procedure}
		return connectError(l.stream(nil, inner, info, func(_ any, outer grpc.ServerStream) error {
			return next(outer.Context(), asConnect{conn, outer})
		}))
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (locked) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// withMetadata has md["…"] in a template look into the headers.
func withMetadata(ctx context.Context, header http.Header) context.Context {
	md := make(metadata.MD)
	for name, values := range header {
		md[strings.ToLower(name)] = values
	}
	return metadata.NewIncomingContext(ctx, md)
}

// asGRPC is a Connect stream as grpcmw takes one.
type asGRPC struct {
	grpc.ServerStream // nil: grpcmw calls only what is here
	ctx               context.Context
	conn              connect.StreamingHandlerConn
}

func (s asGRPC) Context() context.Context { return s.ctx }
func (s asGRPC) RecvMsg(m any) error      { return s.conn.Receive(m) }
func (s asGRPC) SendMsg(m any) error      { return s.conn.Send(m) }

// asConnect is the locked stream as Connect takes one.
type asConnect struct {
	connect.StreamingHandlerConn
	stream grpc.ServerStream
}

func (c asConnect) Receive(m any) error { return connectError(c.stream.RecvMsg(m)) }
func (c asConnect) Send(m any) error    { return connectError(c.stream.SendMsg(m)) }

// connectError makes a Connect error of the status that a lock's answer has, details included. The method's own error
// is none and passes as it is.
func connectError(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
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
