package grpcmw

import (
	"context"

	"google.golang.org/grpc"
)

// Unary returns the interceptor for unary methods. A server needs that for streams too: see [RuleSet.ServerOptions].
func (s *RuleSet) Unary() grpc.UnaryServerInterceptor {
	s.given[unaryKind].Store(true)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		e := s.lookUp(info.FullMethod)
		switch {
		case e.err != nil:
			return nil, s.misfit(ctx, info.FullMethod, e.err)
		case e.bound == nil:
			return handler(ctx, req)
		}
		o := outcome{tx: e.bound.Transactional()}
		var resp any
		c := &call{ctx: ctx, method: info.FullMethod, req: req}
		o.err = e.bound.Do(s.arrived(ctx), []any{c}, func(ctx context.Context) error {
			o.ran = true
			resp, o.own = handler(ctx, req)
			return o.own
		})
		if err := s.finish(ctx, info.FullMethod, o); err != nil {
			return nil, err
		}
		return resp, nil
	}
}
