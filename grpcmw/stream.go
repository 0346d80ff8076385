package grpcmw

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/latchkey-go/latchkey"
)

// Stream returns the interceptor for streaming methods. A server needs that for unary ones too: see
// [RuleSet.ServerOptions].
func (s *RuleSet) Stream() grpc.StreamServerInterceptor {
	s.given[streamKind].Store(true)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		e := s.lookUp(info.FullMethod)
		switch {
		case e.err != nil:
			return s.misfit(ss.Context(), info.FullMethod, e.err)
		case e.bound == nil:
			return handler(srv, ss)
		}
		return s.stream(srv, ss, info.FullMethod, e.bound, handler)
	}
}

// stream runs a handler that is locked as soon as it receives.
func (s *RuleSet) stream(
	srv any, ss grpc.ServerStream, method string, bound *latchkey.Bound, handler grpc.StreamHandler,
) (err error) {
	base, cancel := context.WithCancelCause(s.arrived(ss.Context()))
	ls := &lockedStream{
		ServerStream: ss, rules: s, method: method, bound: bound,
		ctx: &streamCtx{Context: base, cancel: cancel},
	}
	defer func() { // also after a panic
		var o outcome
		o.own, o.ran = err, true
		o.err = err
		if lease := ls.ctx.lease.Load(); lease != nil {
			if lost := lease.Release(base); errors.Is(lost, latchkey.ErrLeaseLost) {
				o.err = errors.Join(err, lost)
			}
		}
		cancel(nil)
		if failed := ls.failed.Load(); failed != nil {
			err = *failed
			return
		}
		err = s.finish(base, method, o)
	}()
	return handler(srv, ls)
}

// lockedStream takes the lock when the first message is there.
type lockedStream struct {
	grpc.ServerStream
	rules  *RuleSet
	method string
	bound  *latchkey.Bound
	ctx    *streamCtx
	first  sync.Mutex            // held while the first message is received and locked
	locked atomic.Bool           // the first message is there, and its lock
	failed atomic.Pointer[error] // why there is no lock
}

// Context implements [grpc.ServerStream].
func (s *lockedStream) Context() context.Context { return s.ctx }

// SendMsg implements [grpc.ServerStream].
func (s *lockedStream) SendMsg(m any) error {
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements [grpc.ServerStream]. No message reaches the handler without the lock: if the first one can't be had,
// none that follows is, even if the stream could go on.
func (s *lockedStream) RecvMsg(m any) error {
	if s.locked.Load() {
		return s.ServerStream.RecvMsg(m)
	}
	s.first.Lock()
	defer s.first.Unlock()
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	err := s.ServerStream.RecvMsg(m)
	switch {
	case s.locked.Load(): // somebody else has received the first message meanwhile
		return err
	case errors.Is(err, io.EOF):
		return s.fail(&latchkey.KeyError{Template: s.method, Reason: "req is missing: the stream has no message"})
	case err != nil:
		return s.end(err)
	}
	lease, err := s.bound.Enter(s.ctx.Context, []any{&call{ctx: s.ctx.Context, method: s.method, req: m}})
	if err != nil {
		return s.fail(err)
	}
	if lease != nil {
		s.ctx.hold(lease)
	}
	s.locked.Store(true)
	return nil
}

// fail ends the stream: it has no lock.
func (s *lockedStream) fail(err error) error {
	return s.end(s.rules.finish(s.ctx.Context, s.method, outcome{err: err}))
}

// end has everything on the stream fail with a status from now on.
func (s *lockedStream) end(status error) error {
	s.failed.Store(&status)
	s.ctx.cancel(status)
	return status
}

// streamCtx is the context of a stream: the same from its start, though the lease comes later.
type streamCtx struct {
	context.Context
	cancel context.CancelCauseFunc
	lease  atomic.Pointer[latchkey.Lease]
}

// hold makes the context carry a lease, whose loss ends it.
func (c *streamCtx) hold(lease *latchkey.Lease) {
	c.lease.Store(lease)
	ctx := lease.Context()
	context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
}

// Err implements [context.Context]. The lease's context compares its deadline with the clock.
func (c *streamCtx) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if lease := c.lease.Load(); lease != nil {
		return lease.Context().Err()
	}
	return nil
}

// Value implements [context.Context].
func (c *streamCtx) Value(key any) any {
	if lease := c.lease.Load(); lease != nil {
		return lease.Context().Value(key)
	}
	return c.Context.Value(key)
}
