package httpmw

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"
)

const defaultMaxBody = 1 << 20

// Option is an option of [New]. The later one wins, except that filters add up.
type Option func(*config)

type config struct {
	maxBody    int64
	maxAnswer  int
	body       reflect.Type // nil: any JSON
	filters    []func(*http.Request) bool
	pathValue  func(*http.Request, string) string
	route      func(*http.Request) string
	busyStatus int
	maxRetry   time.Duration
	accept     bool // locks that callers bring along
	onError    func(http.ResponseWriter, *http.Request, Problem, error)
	errs       []error
}

func (c *config) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("httpmw: "+format, args...))
}

// Body declares the type of the JSON body, as [encoding/json] decodes it. A template that names a member which T does not
// have fails when the handler is wrapped. A number or bool that the body leaves out is T's zero value, as the handler
// sees it: make the field a pointer where leaving it out has to be an error.
func Body[T any]() Option {
	return func(c *config) { c.body = reflect.TypeFor[T]() }
}

// MaxBody bounds the body that is read for the key or before a wait, in bytes: 1 MiB unless set. A longer one that the key
// needs is answered with 413; if the template does not need it the handler reads it as it comes, however long it is.
func MaxBody(bytes int64) Option {
	return func(c *config) {
		if bytes < 1 {
			c.failf("MaxBody(%d): at least a byte must be allowed; leave body and form out of the template not to read it", bytes)
			return
		}
		c.maxBody = bytes
	}
}

// Filter locks only the requests for which it returns true; others run without the lock, on purpose. Of several filters
// all must agree.
func Filter(locks func(*http.Request) bool) Option {
	return func(c *config) {
		if locks == nil {
			c.failf("Filter(nil): leave the option out")
			return
		}
		c.filters = append(c.filters, locks)
	}
}

// Methods locks only requests with one of these methods, such as [http.MethodPost]; others run without the lock.
func Methods(methods ...string) Option {
	methods = slices.Clone(methods)
	return func(c *config) {
		if len(methods) == 0 {
			c.failf("Methods(): no request would be locked; name a method or leave the option out")
			return
		}
		c.filters = append(c.filters, func(r *http.Request) bool { return slices.Contains(methods, r.Method) })
	}
}

// PathValues says where path.<name> comes from, for routers that [http.Request.PathValue] knows nothing of. get returns
// the value unescaped, "" if there is none.
func PathValues(get func(r *http.Request, name string) string) Option {
	return func(c *config) {
		if get == nil {
			c.failf("PathValues(nil): leave the option out")
			return
		}
		c.pathValue = get
	}
}

// Route says what route stands for, instead of [http.Request.Pattern].
func Route(get func(r *http.Request) string) Option {
	return func(c *config) {
		if get == nil {
			c.failf("Route(nil): leave the option out")
			return
		}
		c.route = get
	}
}

// BusyStatus is the status of the answer to a request whose lock is busy, instead of 409: 423 or 429, for example.
func BusyStatus(status int) Option {
	return func(c *config) {
		if status < 400 || status > 599 {
			c.failf("BusyStatus(%d): a request that did not run needs a status from 400 to 599", status)
			return
		}
		c.busyStatus = status
	}
}

// MaxRetryAfter bounds the Retry-After of the answer to a request whose lock is busy. Without it that is how long the
// present hold lasts if its holder crashes: the whole lease, though most holders are done much sooner.
func MaxRetryAfter(d time.Duration) Option {
	return func(c *config) {
		if d < time.Second {
			c.failf("MaxRetryAfter(%v): Retry-After has whole seconds, so at least one is needed", d)
			return
		}
		c.maxRetry = d
	}
}

// OnError answers requests that did not get their lock, in place of [Problem.Write], and hears of leases that were lost
// while the handler ran. p is the answer that would be given; err says what happened and is for logs, not for callers: it
// has the key in it. If p.Answered is set the handler has given its answer already, and nothing may be added to it.
func OnError(f func(w http.ResponseWriter, r *http.Request, p Problem, err error)) Option {
	return func(c *config) {
		if f == nil {
			c.failf("OnError(nil): leave the option out")
			return
		}
		c.onError = f
	}
}
