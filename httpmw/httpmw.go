package httpmw

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/latchkey-go/latchkey"
)

// New returns a middleware that runs handlers under the decorator's lock. The key is rendered from each request; see
// the package's documentation for the names that a template can use. #{fn} needs [latchkey.Name].
//
// New panics if the template can't fit or an option is wrong, as [http.ServeMux.Handle] does; [TryNew] returns the error
// instead. The middleware is safe for concurrent use and may wrap any number of handlers.
func New(d *latchkey.Decorator, opts ...Option) func(http.Handler) http.Handler {
	wrap, err := TryNew(d, opts...)
	if err != nil {
		panic(err.Error())
	}
	return wrap
}

// TryNew is [New] for templates that come from configuration: it returns the error instead of panicking.
func TryNew(d *latchkey.Decorator, opts ...Option) (func(http.Handler) http.Handler, error) {
	m, err := newMiddleware(d, opts)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httpmw: the handler to wrap is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(next, w, r) })
	}, nil
}

// HandlerFunc is [New] for one function.
func HandlerFunc(d *latchkey.Decorator, fn http.HandlerFunc, opts ...Option) http.HandlerFunc {
	if fn == nil {
		panic("httpmw: the handler to wrap is nil")
	}
	return New(d, opts...)(fn).ServeHTTP
}

type middleware struct {
	config
	bound *latchkey.Bound
}

func newMiddleware(d *latchkey.Decorator, opts []Option) (*middleware, error) {
	m := &middleware{config: config{maxBody: defaultMaxBody, maxAnswer: defaultMaxAnswer}}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("httpmw: option %d is nil; leave it out", i+1)
		}
		o(&m.config)
	}
	if err := errors.Join(m.errs...); err != nil {
		return nil, err
	}
	var err error
	m.bound, err = d.Bind("", latchkey.Self(reflect.TypeFor[*call](), &roots{m.body}))
	return m, err
}

// serve runs next under the lock.
func (m *middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	for _, locks := range m.filters {
		if !locks(r) {
			next.ServeHTTP(w, r)
			return
		}
	}
	c := &call{m: m, r: r}
	if m.bound.Waits() {
		if err := c.settle(); err != nil {
			m.answer(w, r, m.problem(r, err), err)
			return
		}
	}
	if m.bound.Transactional() {
		m.serveHeld(next, w, c)
		return
	}
	err := m.bound.Do(m.arrived(r), []any{c}, func(ctx context.Context) error {
		c.handle(ctx, next, w)
		return nil
	})
	if err != nil {
		p := m.problem(r, err)
		p.Answered = c.ran
		m.answer(w, r, p, err)
	}
}
