package httpmw

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
)

// Problem is the answer to a request that did not run, or whose work did not count: a problem document (RFC 9457). None
// of its parts contains a key, a token or what a backend said.
type Problem struct {
	// Title is the same for every problem with this Code.
	Title string `json:"title"`
	// Status is the HTTP status. Zero: the caller is gone, and nothing is written.
	Status int `json:"status"`
	// Detail is about this request; it may be empty.
	Detail string `json:"detail,omitempty"`
	// Code tells problems apart: LOCK_BUSY, LOCK_KEY_MISSING, BODY_TOO_LARGE, BODY_INCOMPLETE, LOCK_STORE_UNAVAILABLE,
	// LEASE_LOST, OUTCOME_UNKNOWN, ANSWER_TOO_LARGE, CALLER_GONE or INTERNAL.
	Code string `json:"code"`
	// RetryAfter is when it is worth trying again; zero leaves the header out. Fractions of a second round up.
	RetryAfter time.Duration `json:"-"`
	// Answered: the handler ran and has given its answer. Nothing may be added to it.
	Answered bool `json:"-"`
}

// Write answers with the problem. If it is Answered, Write does nothing. If the caller is gone it aborts the connection,
// by a panic with [http.ErrAbortHandler].
func (p Problem) Write(w http.ResponseWriter) {
	switch {
	case p.Answered:
		return
	case p.Status == 0:
		w.WriteHeader(http.StatusServiceUnavailable) // never sent, unless somebody recovers: then it must not be 200
		panic(http.ErrAbortHandler)
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and a number can't fail
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a caller that is gone can't be told
}

// answer tells the caller what became of a request that ended in err.
func (m *middleware) answer(w http.ResponseWriter, r *http.Request, p Problem, err error) {
	if m.onError != nil {
		m.onError(w, r, p, err)
		return
	}
	p.Write(w)
}

// problem says what an error means to the caller.
func (m *middleware) problem(r *http.Request, err error) Problem {
	var busy *latchkey.BusyError
	var key *latchkey.KeyError
	var body *bodyError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, latchkey.ErrLeaseLost):
		return lost()
	case errors.As(err, &tooLarge): // whoever sent half a body may have stopped sending only, though net/http takes it for gone
		return Problem{
			Title: "The body is too large", Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE",
			Detail: "at most " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes are allowed",
		}
	case errors.As(err, &key):
		return Problem{
			Title: "The request does not say what to lock", Status: http.StatusBadRequest, Code: "LOCK_KEY_MISSING",
			Detail: detail(key),
		}
	case errors.As(err, &body):
		return Problem{Title: "The body did not arrive whole", Status: http.StatusBadRequest, Code: "BODY_INCOMPLETE"}
	case errors.Is(r.Context().Err(), context.Canceled):
		return Problem{Title: "The caller is gone", Code: "CALLER_GONE"}
	case errors.As(err, &busy):
		status := http.StatusConflict
		if m.busyStatus != 0 {
			status = m.busyStatus
		}
		return Problem{
			Title: "Somebody else is at work on this", Status: status, Code: "LOCK_BUSY", RetryAfter: m.retryAfter(busy.RetryAfter),
		}
	case errors.Is(err, latchkey.ErrStore):
		return Problem{
			Title: "Locks are not available", Status: http.StatusServiceUnavailable, Code: "LOCK_STORE_UNAVAILABLE",
			RetryAfter: time.Second,
		}
	}
	return Problem{Title: "Something went wrong", Status: http.StatusInternalServerError, Code: "INTERNAL"}
}

func lost() Problem {
	return Problem{
		Title: "The lock was lost before the work was done", Status: http.StatusServiceUnavailable, Code: "LEASE_LOST",
		RetryAfter: time.Second,
	}
}

// retryAfter is when a busy lock is worth another try; what is not known is a second.
func (m *middleware) retryAfter(d time.Duration) time.Duration {
	if m.maxRetry > 0 {
		d = min(d, m.maxRetry)
	}
	return max(d, time.Second)
}

// detail says which part of the request was missing. Parts of the template that are about anything else, such as the
// server's own context, are not the caller's business.
func detail(err *latchkey.KeyError) string {
	for _, root := range rootNames {
		if rest, ok := strings.CutPrefix(err.Reason, root); ok && rest != "" && strings.ContainsRune(" .[", rune(rest[0])) {
			return err.Reason
		}
	}
	return ""
}
