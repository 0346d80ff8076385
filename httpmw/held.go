package httpmw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/latchkey-go/latchkey"
)

const defaultMaxAnswer = 1 << 20

var (
	errAnswerTooLarge = errors.New("httpmw: the answer is longer than MaxAnswer allows to hold back until COMMIT")
	// errRefused rolls back what a handler answered with an error status.
	errRefused = errors.New("httpmw: the handler's status rolls the transaction back")
)

// MaxAnswer bounds the answer of a handler that runs in a transaction, in bytes: 1 MiB unless set. It is held back until
// the database has answered COMMIT. A longer one rolls back, and the caller gets 500.
func MaxAnswer(bytes int) Option {
	return func(c *config) {
		if bytes < 1 {
			c.failf("MaxAnswer(%d): at least a byte must be allowed", bytes)
			return
		}
		c.maxAnswer = bytes
	}
}

// heldAnswer is the ResponseWriter of a handler that runs in a transaction: what the caller sees depends on COMMIT. It
// offers nothing that would send something before: no Flush, no Hijack.
type heldAnswer struct {
	conn   *http.ResponseController
	header http.Header
	sent   http.Header // header as it was at WriteHeader
	status int
	body   bytes.Buffer
	limit  int
	over   bool
	silent error // what it means if nothing is written
}

func (h *heldAnswer) Header() http.Header { return h.header }

// WriteHeader implements [http.ResponseWriter]. As there, a status that is none panics.
func (h *heldAnswer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpmw: invalid WriteHeader code %v", status))
	}
	if h.status == 0 && status >= http.StatusOK { // interim answers can't be held back: dropped
		h.status, h.sent = status, h.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (h *heldAnswer) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.over = h.over || h.body.Len()+len(b) > h.limit; h.over {
		return 0, errAnswerTooLarge
	}
	return h.body.Write(b)
}

// What [http.ResponseController] can do without sending anything.

func (h *heldAnswer) SetReadDeadline(end time.Time) error  { return h.conn.SetReadDeadline(end) }
func (h *heldAnswer) SetWriteDeadline(end time.Time) error { return h.conn.SetWriteDeadline(end) }
func (h *heldAnswer) EnableFullDuplex() error              { return h.conn.EnableFullDuplex() }

// outcome is what the handler's answer means for the transaction.
func (h *heldAnswer) outcome() error {
	switch {
	case h.over:
		return errAnswerTooLarge
	case h.status >= http.StatusBadRequest:
		return errRefused
	case h.status == 0:
		return h.silent
	}
	return nil
}

// refusedOnly reports whether the handler's status is all that went wrong: what it says about a lease that was lost is
// not the answer to that.
func refusedOnly(err error) bool {
	return errors.Is(err, errRefused) && !errors.Is(err, latchkey.ErrOutcomeUnknown) && !errors.Is(err, latchkey.ErrLeaseLost) &&
		!errors.Is(err, latchkey.ErrFenced)
}

// deliver sends the answer.
func (h *heldAnswer) deliver(w http.ResponseWriter) {
	h.WriteHeader(http.StatusOK)
	clear(w.Header())
	maps.Copy(w.Header(), h.sent)
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes())  // a caller that is gone can't be told
	maps.Copy(w.Header(), h.header) // trailers: of what was set after WriteHeader, net/http sends these only
}

// serveHeld runs next in the decorator's transaction. The caller gets its answer when the database has answered.
func (m *middleware) serveHeld(next http.Handler, w http.ResponseWriter, c *call) {
	h := &heldAnswer{conn: http.NewResponseController(w), header: w.Header().Clone(), limit: m.maxAnswer}
	if h.header == nil {
		h.header = make(http.Header)
	}
	if bypassable(w) {
		h.silent = errBypassed
	}
	err := m.bound.Do(m.arrived(c.r), []any{c}, func(ctx context.Context) error {
		c.handle(ctx, next, h)
		return h.outcome()
	})
	if err == nil || refusedOnly(err) {
		h.deliver(w)
		return
	}
	m.answer(w, c.r, m.afterwards(c, err), err)
}

// afterwards is the problem of a request that ran, or did not, in a transaction that was not committed for certain.
func (m *middleware) afterwards(c *call, err error) Problem {
	switch {
	case errors.Is(err, latchkey.ErrOutcomeUnknown):
		return Problem{
			Title: "Nobody can tell whether the work was done", Status: http.StatusInternalServerError, Code: "OUTCOME_UNKNOWN",
		}
	case errors.Is(err, latchkey.ErrLeaseLost), errors.Is(err, latchkey.ErrFenced):
		return lost()
	case errors.Is(err, errAnswerTooLarge):
		return Problem{Title: "The answer is too large", Status: http.StatusInternalServerError, Code: "ANSWER_TOO_LARGE"}
	case c.ran && !errors.Is(c.r.Context().Err(), context.Canceled):
		return Problem{Title: "The work was undone", Status: http.StatusInternalServerError, Code: "INTERNAL"}
	}
	return m.problem(c.r, err)
}
