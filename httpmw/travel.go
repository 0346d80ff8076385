package httpmw

import (
	"context"
	"net/http"
	"strings"

	"github.com/latchkey-go/latchkey"
)

// leaseHeader shows which locks a caller holds.
const leaseHeader = "Latchkey-Lease"

// Transport returns a round tripper that shows the callee which locks the request's context holds, so that it can enter
// them instead of waiting for its caller: service A holds order:42 and calls service B, which locks order:42 too. The
// callee has to agree by [AcceptLeases]. See [latchkey.ExportLeases] for what that lets the callee do: use the
// transport only for clients of services that may, over TLS. A redirect to another host would take the header along:
// set [http.Client.CheckRedirect]. base nil means [http.DefaultTransport].
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if text := latchkey.ExportLeases(r.Context()); text != "" {
		r = r.Clone(r.Context()) // a round tripper must not change its request
		r.Header.Set(leaseHeader, text)
	}
	return t.base.RoundTrip(r)
}

// AcceptLeases lets callers that hold a lock bring it along: a handler that needs the same lock, in the same store and
// namespace, enters theirs instead of waiting for it. Callers send it by [Transport] or grpcmw.SendLeases; the store
// confirms it, so nobody can claim a lock that is not held. Use it on servers that only your own services can call: see
// [latchkey.ImportLeases].
func AcceptLeases() Option { return func(c *config) { c.accept = true } }

// arrived returns the context of a request with the locks that its caller brought, if they are welcome.
func (c *config) arrived(r *http.Request) context.Context {
	if !c.accept {
		return r.Context()
	}
	return latchkey.ImportLeases(r.Context(), strings.Join(r.Header.Values(leaseHeader), ","))
}
