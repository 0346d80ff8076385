package grpcmw

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/latchkey-go/latchkey"
)

// leaseKey is the metadata that shows which locks a caller holds.
const leaseKey = "latchkey-lease"

// SendLeases returns a client interceptor that shows the callee which locks the calling code holds, so that it can enter
// them instead of waiting for its caller: service A holds order:42 and calls service B, which locks order:42 too. The
// callee has to agree by [AcceptLeases]. See [latchkey.ExportLeases] for what that lets the callee do: give the
// interceptor only to connections with services that may. Locks in a store without proofs, such as quorumstore, do not travel.
func SendLeases() grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		return invoke(withLeases(ctx), method, req, reply, cc, opts...)
	}
}

// SendLeasesStream is [SendLeases] for streams: the locks that are held when the stream begins.
func SendLeasesStream() grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return stream(withLeases(ctx), desc, cc, method, opts...)
	}
}

func withLeases(ctx context.Context) context.Context {
	if text := latchkey.ExportLeases(ctx); text != "" {
		return metadata.AppendToOutgoingContext(ctx, leaseKey, text)
	}
	return ctx
}

// AcceptLeases lets callers that hold a lock bring it along: a method that needs the same lock, in the same store and
// namespace, enters theirs instead of waiting for it. Callers send it by [SendLeases] or httpmw.Transport; the store
// confirms it, so nobody can claim a lock that is not held. Use it on servers that only your own services can call: see
// [latchkey.ImportLeases]. With a store that has no proofs, such as quorumstore, it does nothing: the call waits for its caller.
func AcceptLeases() Option { return func(s *RuleSet) { s.accept = true } }

// arrived returns the context of a call with the locks that its caller brought, if they are welcome.
func (s *RuleSet) arrived(ctx context.Context) context.Context {
	if !s.accept {
		return ctx
	}
	return latchkey.ImportLeases(ctx, strings.Join(metadata.ValueFromIncomingContext(ctx, leaseKey), ","))
}
