package grpcmw

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/latchkey-go/latchkey"
)

// Domain is the domain of the ErrorInfo in every status that this package makes.
const Domain = "latchkey"

// outcome is how a call ended.
type outcome struct {
	ran bool
	tx  bool  // in a transaction: what was lost was rolled back
	own error // what the handler returned
	err error // what became of it under the lock
}

// finish returns the error for the caller: the handler's own, or what kept it from running or from counting.
func (s *RuleSet) finish(ctx context.Context, method string, o outcome) error {
	switch {
	case o.err == nil:
		return nil
	case !o.ran:
		return s.tell(ctx, method, s.refused(ctx, o.err), o.err)
	}
	st := o.undone()
	if st == nil {
		return o.own
	}
	answer := s.tell(ctx, method, st, o.err)
	own, ok := status.FromError(o.own)
	if o.own == nil || !ok || own.Code() == codes.Canceled || own.Code() == codes.DeadlineExceeded {
		return answer
	}
	return o.own // an answer that the handler chose
}

// undone is the status of a call that ran but does not count, or may not; nil if it ended by itself.
func (o *outcome) undone() *status.Status {
	lost := errors.Is(o.err, latchkey.ErrLeaseLost)
	switch {
	case errors.Is(o.err, latchkey.ErrOutcomeUnknown):
		return withInfo(codes.Unknown, "nobody can tell whether the work was done", "OUTCOME_UNKNOWN")
	case o.tx && (lost || errors.Is(o.err, latchkey.ErrFenced)):
		return withInfo(codes.Aborted, "the lock was lost and the work undone", "LEASE_LOST")
	case lost:
		return withInfo(codes.Unknown, "the lock was lost before the work was done", "LEASE_LOST")
	case o.own == nil: // COMMIT was refused
		return withInfo(codes.Internal, "the work was undone", "ROLLED_BACK")
	}
	return nil
}

// tell has OnError hear of a status, and returns it as an error.
func (s *RuleSet) tell(ctx context.Context, method string, st *status.Status, err error) error {
	if s.onError != nil {
		if own := s.onError(ctx, method, st, err); own != nil && own.Code() != codes.OK {
			st = own
		}
	}
	return st.Err()
}

// misfit is the answer to a call whose rule turned out not to fit when the method was first called.
func (s *RuleSet) misfit(ctx context.Context, method string, err error) error {
	return s.tell(ctx, method, withInfo(codes.Internal, "the method's lock is misconfigured", "LOCK_MISCONFIGURED"), err)
}

// refused is the status of a call that did not run.
func (s *RuleSet) refused(ctx context.Context, err error) *status.Status {
	var busy *latchkey.BusyError
	var key *latchkey.KeyError
	switch {
	case errors.As(err, &busy): // before the context: a wait that the caller's deadline ended was for a busy lock
		return withInfo(s.busyCode, "somebody else is at work on this", "LOCK_BUSY",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay(busy.RetryAfter))})
	case errors.Is(err, latchkey.ErrLeaseLost), errors.Is(err, latchkey.ErrFenced): // before the transaction's first statement
		return withInfo(codes.Aborted, "the lock was lost before the work was begun", "LEASE_LOST")
	case errors.As(err, &key):
		return withInfo(codes.InvalidArgument, "the request does not say what to lock", "LOCK_KEY_MISSING", badRequest(key))
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err())
	case errors.Is(err, latchkey.ErrStore):
		return withInfo(codes.Unavailable, "locks are not available", "LOCK_STORE_UNAVAILABLE")
	}
	return withInfo(codes.Internal, "something went wrong", "INTERNAL")
}

// retryDelay is when a busy lock is worth another try; what is not known is a second.
func retryDelay(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}

// badRequest says which field of the request was missing. Parts of the template that are about anything else, such as
// the server's own context, are not the caller's business.
func badRequest(err *latchkey.KeyError) *errdetails.BadRequest {
	v := &errdetails.BadRequest_FieldViolation{Description: "needed to tell what to lock"}
	for _, root := range []string{"req", "md"} {
		rest, ok := strings.CutPrefix(err.Reason, root)
		if !ok || rest == "" || !strings.ContainsRune(" .[", rune(rest[0])) {
			continue
		}
		field, _, _ := strings.Cut(err.Reason, " ")
		v.Description, v.Field = err.Reason, strings.TrimPrefix(field, "req.")
	}
	return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{v}}
}

func withInfo(code codes.Code, message, reason string, details ...protoadapt.MessageV1) *status.Status {
	st := status.New(code, message)
	full, err := st.WithDetails(append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: Domain}}, details...)...)
	if err != nil { // only for codes.OK
		return st
	}
	return full
}
