package httpmw

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/latchkey-go/latchkey"
)

// rootNames are the names that a template starts with.
var rootNames = []string{"path", "query", "header", "cookie", "form", "body", "method", "host", "route"}

// roots describes a request to the template.
type roots struct{ body reflect.Type }

func (*roots) String() string  { return "an HTTP request" }
func (*roots) Names() []string { return rootNames }

// Member implements [latchkey.Members].
func (r *roots) Member(name string) (latchkey.Member, error) {
	switch name {
	case "path":
		return group(named{"a request's path values", (*call).path}), nil
	case "query":
		return group(named{"a request's query", (*call).query}), nil
	case "header":
		return group(named{"a request's headers", (*call).header}), nil
	case "cookie":
		return group(named{"a request's cookies", (*call).cookie}), nil
	case "form":
		return group(named{"a request's form", (*call).form}), nil
	case "body":
		return r.jsonBody(), nil
	case "method":
		return text(func(c *call) string { return c.r.Method }), nil
	case "host":
		return text(func(c *call) string { return host(c.r) }), nil
	case "route":
		return text((*call).route), nil
	}
	return latchkey.Member{}, errors.New("a request has no " + name)
}

func get[V any](f func(*call) (V, error)) func(any) (any, error) {
	return func(v any) (any, error) { return f(v.(*call)) } //nolint:forcetypeassert // what Bind was told
}

func text(f func(*call) string) latchkey.Member {
	return latchkey.Member{Type: reflect.TypeFor[string](), Get: get(func(c *call) (string, error) { return f(c), nil })}
}

// named describes the values of a request that have a name each: any name, since it shows only in the request whether
// there is one.
type named struct {
	what string
	get  lookUp
}

// lookUp finds a value by its name; "" is none.
type lookUp func(c *call, name string) (string, error)

// group is the member that stands for all values of one kind: the call itself, described otherwise.
func group(n named) latchkey.Member {
	return latchkey.Member{
		Type: reflect.TypeFor[*call](), Of: &n, Get: get(func(c *call) (*call, error) { return c, nil }),
	}
}

func (n *named) String() string { return n.what }
func (*named) Names() []string  { return nil }

// Member implements [latchkey.Members].
func (n *named) Member(name string) (latchkey.Member, error) {
	return latchkey.Member{
		Type: reflect.TypeFor[string](),
		Get: get(func(c *call) (any, error) {
			if s, err := n.get(c, name); err != nil || s != "" {
				return s, err
			}
			return nil, nil
		}),
	}, nil
}

var errSeveral = errors.New("is given several times, with different values")

// single returns the one value that there is.
func single(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", errSeveral
		}
	}
	return values[0], nil
}

func (c *call) query(name string) (string, error) {
	if c.params == nil {
		c.params = c.r.URL.Query()
	}
	return single(c.params[name])
}

func (c *call) header(name string) (string, error) {
	if strings.EqualFold(name, "Host") {
		return host(c.r), nil
	}
	return single(c.r.Header.Values(name))
}

func (c *call) cookie(name string) (string, error) {
	cookies := c.r.CookiesNamed(name)
	values := make([]string, len(cookies))
	for i, cookie := range cookies {
		values[i] = cookie.Value
	}
	return single(values)
}

func (c *call) route() string {
	if c.m.route != nil {
		return c.m.route(c.r)
	}
	return c.r.Pattern
}

// host is the host that was asked for, without what does not tell hosts apart: case, the dot at the end, the port that
// goes without saying.
func host(r *http.Request) string {
	u := url.URL{Host: strings.ToLower(r.Host)}
	name, port := strings.TrimSuffix(u.Hostname(), "."), u.Port()
	if strings.Contains(name, ":") { // IPv6, whose last group might be taken for a port
		name = "[" + name + "]"
	}
	if port == "" || r.TLS == nil && port == "80" || r.TLS != nil && port == "443" {
		return name
	}
	return name + ":" + port
}
