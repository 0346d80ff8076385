package grpcmw

import (
	"context"

	"google.golang.org/grpc"

	"github.com/latchkey-go/latchkey"
)

// UnaryServerInterceptor returns an interceptor that runs unary methods under the locks that the rules give them.
//
// It panics if a rule is wrong or does not fit its method, as these are mistakes in the program; [Rules] returns the
// error instead. It is safe for concurrent use.
func UnaryServerInterceptor(locks *latchkey.Locks, rules ...Option) grpc.UnaryServerInterceptor {
	return mustRules(locks, rules).Unary()
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streaming methods. The same rules can be given to both.
func StreamServerInterceptor(locks *latchkey.Locks, rules ...Option) grpc.StreamServerInterceptor {
	return mustRules(locks, rules).Stream()
}

func mustRules(locks *latchkey.Locks, rules []Option) *RuleSet {
	s, err := Rules(locks, rules...)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// Unary returns the interceptor for unary methods.
func (s *RuleSet) Unary() grpc.UnaryServerInterceptor {
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
