package httpmw_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
)

// basket is a typed body.
type basket struct {
	SKU      string `json:"sku"`
	Customer *struct {
		ID int `json:"id"`
	} `json:"customer"`
	Items []struct {
		SKU string `json:"sku"`
	} `json:"items"`
}

func TestKeysFromEveryPartOfARequest(t *testing.T) {
	const (
		form   = "application/x-www-form-urlencoded"
		multi  = "multipart/form-data; boundary=b"
		multiX = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n9\r\n--b--\r\n"
	)
	for _, c := range []struct {
		template string
		opts     []httpmw.Option
		request  string // "" sends body,
		method   string // by POST
		path     string // to /orders/1
		kind     string
		body     string
		want     string // "" means 400
	}{
		{template: "o:#{path.id}", request: "GET /orders/42 HTTP/1.1", want: "o:42"},
		{template: "o:#<path.id>", request: "GET /orders/42 HTTP/1.1", want: "o:42"},
		{template: "o:#{path.nobody}", request: "GET /orders/42 HTTP/1.1"},
		{template: "q:#{query.sku}", request: "GET /orders/1?sku=a%20b HTTP/1.1", want: "q:a%20b"},
		{template: "q:#{query.sku}", request: "GET /orders/1?sku= HTTP/1.1"},
		{template: "q:#{query.sku}", request: "GET /orders/1 HTTP/1.1"},
		{template: "q:#{query.sku}", request: "GET /orders/1?sku=a&sku=b HTTP/1.1"},
		{template: "q:#{query.sku}", request: "GET /orders/1?sku=a&sku=a HTTP/1.1", want: "q:a"},
		{template: `q:#{query.sku ?? "none"}`, request: "GET /orders/1 HTTP/1.1", want: "q:none"},
		{template: `q:#{query.sku ?? "none"}`, request: "GET /orders/1?sku=a&sku=b HTTP/1.1"},
		{template: `h:#{header["X-Tenant"]}`, request: "GET /orders/1 HTTP/1.1\nx-tenant: acme", want: "h:acme"},
		{template: `h:#{header["x-tenant"]}`, request: "GET /orders/1 HTTP/1.1\nX-TENANT: acme", want: "h:acme"},
		{template: `h:#{header["X-Tenant"]}`, request: "GET /orders/1 HTTP/1.1\nX-Tenant: a\nx-tenant: b"},
		{template: `h:#{header["X-Tenant"]}`, request: "GET /orders/1 HTTP/1.1\nX-Tenant: a\nx-tenant: a", want: "h:a"},
		{template: `h:#{header["X-Tenant"]}`, request: "GET /orders/1 HTTP/1.1\nX-Tenant:  "},
		{template: "c:#{cookie.sid}", request: "GET /orders/1 HTTP/1.1\nCookie: a=b; sid=7", want: "c:7"},
		{template: "c:#{cookie.sid}", request: "GET /orders/1 HTTP/1.1\nCookie: sid=7; sid=8"},
		{template: "c:#{cookie.sid}", request: "GET /orders/1 HTTP/1.1"},
		{template: "m:#{method}", request: "GET /orders/1 HTTP/1.1", want: "m:GET"},
		{template: "m:#{host}", request: "GET /orders/1 HTTP/1.1\nHost: Shop.Example.:80", want: "m:shop.example"},
		{template: "m:#{host}", request: "GET /orders/1 HTTP/1.1\nHost: shop.example:8080", want: "m:shop.example%3A8080"},
		{template: "m:#{host}", request: "GET /orders/1 HTTP/1.1\nHost: [::A]:8080", want: "m:[%3A%3Aa]%3A8080"},
		{template: "m:#{host}", request: "GET /orders/1 HTTP/1.1\nHost: [::a:8080]:80", want: "m:[%3A%3Aa%3A8080]"},
		{template: "b:#{body.sku}", body: "\x1f\x8b\x08 what gzip makes of a body"},
		{template: "m:#{header.host}", request: "GET /orders/1 HTTP/1.1\nHost: SHOP", want: "m:shop"},
		{template: "r/#{route}", request: "GET /orders/1 HTTP/1.1", want: "r/%2Forders%2F%7Bid%7D"},
		{template: "r/#{route}", opts: []httpmw.Option{httpmw.Route(func(*http.Request) string { return "orders" })},
			request: "GET /orders/1 HTTP/1.1", want: "r/orders"},
		{template: "p:#{path.id}", opts: []httpmw.Option{httpmw.PathValues(func(_ *http.Request, name string) string { return name + "!" })},
			request: "GET /orders/1 HTTP/1.1", want: "p:id!"},
		{template: "f:#{form.x}", kind: form, body: "x=1&y=2", want: "f:1 | x=1&y=2"},
		{template: "f:#{form.x}", kind: form, body: "x=1&x=2"},
		{template: "f:#{form.x}", kind: form, body: "y=1"},
		{template: "f:#{form.x}", kind: "application/json", body: `{"x":1}`},
		{template: "f:#{form.x}", kind: form, body: "x=%zz"},
		{template: "f:#{form.x}", kind: multi, body: multiX, want: "f:9 | " + multiX},
		// What r.FormValue says is another value, or none.
		{template: "f:#{form.x}", path: "/orders/1?x=2", kind: form, body: "x=1"},
		{template: "f:#{form.x}", path: "/orders/1?x=1", kind: form, body: "x=1", want: "f:1 | x=1"},
		{template: "f:#{form.x}", path: "/orders/1?x=2", kind: form, body: "y=1"},
		{template: `f:#{form.x ?? "none"}`, path: "/orders/1?x=2", kind: form, body: "y=1"},
		{template: `f:#{form.x ?? "none"}`, path: "/orders/1?z=2", kind: form, body: "y=1", want: "f:none | y=1"},
		{template: "f:#{form.x}", path: "/orders/1?x=2", kind: multi, body: multiX},
		{template: "f:#{form.x}", path: "/orders/1?x=9", kind: multi, body: multiX, want: "f:9 | " + multiX},
		{template: "f:#{form.x}", path: "/orders/1?y=2", kind: multi, body: multiX, want: "f:9 | " + multiX},
		{template: "f:#{form.x}", method: "DELETE", kind: form, body: "x=1"},
		{template: "f:#{form.x}", method: "GET", kind: form, body: "x=1"},
		{template: "f:#{form.x}", method: "PATCH", kind: form, body: "x=1", want: "f:1 | x=1"},
		{template: "f:#{form.x}", method: "DELETE", kind: multi, body: multiX, want: "f:9 | " + multiX},
		// Readers of JSON differ in which one they take.
		{template: "b:#{body.id}", body: `{"id":1,"id":2}`},
		{template: "b:#{body.id}", body: `{"id":1,"id":1}`},
		{template: "b:#{body.id}", body: `{"id":1,"\u0069d":2}`},
		{template: "b:#{body.a.id}", body: `{"a":{"id":1},"a":{"b":2}}`},
		{template: "b:#{body.id}", body: `{"id":1,"pad":[{"x":[],"x":0}]}`},
		{template: "b:#{body.id}", body: `{"id":1,"a":{"id":2},"b":[{"id":3},{"id":4},"id","id"]}`,
			want: `b:1 | {"id":1,"a":{"id":2},"b":[{"id":3},{"id":4},"id","id"]}`},
		{template: "b:#{body.sku}", opts: typed, body: `{"sku":"a","sku":"b"}`},
		{template: "b:#{map(body.items, .sku)}", opts: typed, body: `{"items":[{"sku":"z"}],"items":[{"sku":"a"}]}`},
		{template: "b:#{body.sku}", body: `{"sku":"a"}`, want: `b:a | {"sku":"a"}`},
		{template: "b:#{body.sku}", body: `{"sku":7}`, want: `b:7 | {"sku":7}`},
		{template: "b:#{body.sku}", body: `{"sku":7.0}`, want: `b:7 | {"sku":7.0}`},
		{template: "b:#{body.sku}", body: `{"sku":90071992547409931}`, want: `b:90071992547409931 | {"sku":90071992547409931}`},
		{template: "b:#{body.sku}", body: `{"sku":7.5}`},
		{template: "b:#{body.sku}", body: `{"sku":null}`},
		{template: "b:#{body.sku}", body: `{"sku":" "}`},
		{template: "b:#{body.sku}", body: `{"sku":{"a":1}}`},
		{template: "b:#{body.sku}", body: `{"sku":"a","SKU":"b"}`},
		{template: "b:#{body.sku}", body: `["sku"]`},
		{template: "b:#{body.sku}", body: `null`},
		{template: "b:#{body.a.b.c}", body: `{"a":{"b":{"c":true}}}`, want: `b:true | {"a":{"b":{"c":true}}}`},
		{template: "b:#{body.a.b.c}", body: `{"a":{"b":"c"}}`},
		{template: `b:#{body.coupon ?? "none"}`, body: `{}`, want: `b:none | {}`},
		{template: `b:#{body.coupon ?? "none"}`, body: ``, want: `b:none`},
		{template: "b:#{body.SKU}", opts: typed, body: `{"sku":"a"}`, want: `b:a | {"sku":"a"}`},
		{template: "b:#{body.customer.id}", opts: typed, body: `{"customer":{"id":3}}`, want: `b:3 | {"customer":{"id":3}}`},
		{template: "b:#{body.customer.id}", opts: typed, body: `{}`},
		{template: "b:#{body.customer.id}", opts: typed, body: `{"customer":{"id":"3"}}`},
		{template: "b:#{map(body.items, .sku)}", opts: typed, body: `{"items":[{"sku":"z"},{"sku":"a"}]}`,
			want: `b:a b:z | {"items":[{"sku":"z"},{"sku":"a"}]}`},
		{template: "b:#{map(body.items, .sku)}", opts: typed, body: `{"items":[]}`},
	} {
		s := open(t, func(s *shop, mux *http.ServeMux) {
			mux.Handle("/orders/{id}", httpmw.New(s.locks.WithLock(c.template), c.opts...)(http.HandlerFunc(sayKeys)))
		})
		var got answer
		if c.request != "" {
			got = s.raw(t, c.request)
		} else {
			if c.kind == "" {
				c.kind = "application/json"
			}
			method, path := cmp.Or(c.method, "POST"), cmp.Or(c.path, "/orders/1")
			got = s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\nContent-Type: %s\nContent-Length: %d\n\n%s", method, path, c.kind, len(c.body), c.body))
		}
		if c.want == "" {
			if got.status != http.StatusBadRequest || !strings.Contains(got.body, "LOCK_KEY_MISSING") {
				t.Errorf("%s of %q %q: %d %q, want 400", c.template, c.request, c.body, got.status, got.body)
			}
			continue
		}
		if got.status != http.StatusOK || got.body != c.want {
			t.Errorf("%s of %q %q: %d %q, want %q", c.template, c.request, c.body, got.status, got.body, c.want)
		}
	}
}

var typed = []httpmw.Option{httpmw.Body[basket]()}

func TestAKeyIsTheSameHoweverThePathWasEscaped(t *testing.T) {
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("GET /orders/{id}/pay", httpmw.New(s.locks.WithLock("o/#{path.id}"))(http.HandlerFunc(sayKeys)))
		mux.Handle("GET /files/{rest...}", httpmw.New(s.locks.WithLock("f:#{path.rest}"))(http.HandlerFunc(sayKeys)))
	})
	seen := map[string]string{}
	for _, c := range []struct{ path, want string }{
		{"/orders/a/pay", "o/a"}, {"/orders/%61/pay", "o/a"}, {"/orders/%2561/pay", "o/%2561"},
		{"/orders/a%2Fb/pay", "o/a%2Fb"}, {"/orders/a%2fb/pay", "o/a%2Fb"}, {"/orders/%61%2F%62/pay", "o/a%2Fb"},
		{"/orders/a%252Fb/pay", "o/a%252Fb"}, {"/orders/%41%252Fb/pay", "o/A%252Fb"},
		{"/orders/%20/pay", ""}, {"/files/a/%62/c%2Fd", "f:a/b/c/d"}, {"/files/100%25/%61", "f:100%25/a"},
	} {
		got := s.raw(t, "GET "+c.path+" HTTP/1.1")
		if c.want == "" {
			if got.status != http.StatusBadRequest {
				t.Errorf("%s: %d %q, want 400", c.path, got.status, got.body)
			}
			continue
		}
		if got.body != c.want {
			t.Errorf("%s: %d %q, want %q", c.path, got.status, got.body, c.want)
		}
		seen[got.body] = c.path
	}
	if len(seen) != 7 {
		t.Errorf("%d different keys, want 7: %v", len(seen), seen)
	}
}

func TestAMissingPartIsNamedToTheCallerUnlessItIsTheServersOwn(t *testing.T) {
	type tenant struct{}
	s := open(t, func(s *shop, mux *http.ServeMux) {
		fromCtx := latchkey.CtxVar("tenant", func(ctx context.Context) string { v, _ := ctx.Value(tenant{}).(string); return v })
		mux.Handle("/body", httpmw.New(s.locks.WithLock("b:#{body.sku}"))(http.HandlerFunc(sayKeys)))
		mux.Handle("/ctx", httpmw.New(s.locks.WithLock("b:#{ctx.tenant}", fromCtx))(http.HandlerFunc(sayKeys)))
	})
	for path, want := range map[string]string{"/body": "body.sku is missing", "/ctx": ""} {
		var p httpmw.Problem
		got := s.post(t, path, "application/json", "{}")
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || p.Detail != want || p.Status != 400 {
			t.Errorf("%s: %q, want the detail %q", path, got.body, want)
		}
	}
}

func TestTemplatesThatCanNotFitFailAtWiring(t *testing.T) {
	s := open(t, func(*shop, *http.ServeMux) {})
	for _, c := range []struct {
		template string
		opts     []httpmw.Option
		want     string
	}{
		{"o:#{paht.id}", nil, "did you mean path?"},
		{"o:#{path}", nil, "a request's path values has no text of its own"},
		{"o:#{body.skuu}", typed, "did you mean"},
		{"o:#{body.items}", typed, "map("},
		{"o:#{map(body.items, .sku)}", nil, "httpmw.Body declares one"},
		{"o:#{method + 1}", nil, "mismatched types"},
		{"o:{id}", nil, "#{"},
		{"", nil, "Name("},
		{"o", []httpmw.Option{nil}, "option 1 is nil"},
		{"o", []httpmw.Option{httpmw.MaxBody(0)}, "MaxBody(0)"},
		{"o", []httpmw.Option{httpmw.BusyStatus(200)}, "BusyStatus(200)"},
		{"o", []httpmw.Option{httpmw.Filter(nil)}, "Filter(nil)"},
		{"o", []httpmw.Option{httpmw.Methods()}, "Methods()"},
		{"o", []httpmw.Option{httpmw.MaxRetryAfter(1)}, "MaxRetryAfter"},
		{"o", []httpmw.Option{httpmw.OnError(nil), httpmw.Route(nil), httpmw.PathValues(nil)}, "Route(nil)"},
	} {
		_, err := httpmw.TryNew(s.locks.WithLock(c.template), c.opts...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.template, err, c.want)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q: New did not panic", c.template)
				}
			}()
			httpmw.New(s.locks.WithLock(c.template), c.opts...)
		}()
	}
	for name, wire := range map[string]func(){
		"handler":  func() { httpmw.New(s.locks.WithLock("o"))(nil) },
		"function": func() { httpmw.HandlerFunc(s.locks.WithLock("o"), nil) },
	} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, "nil") {
					t.Errorf("nil %s: %s", name, r)
				}
			}()
			wire()
		}()
	}
	if _, err := httpmw.TryNew(nil); err == nil {
		t.Error("a nil decorator is taken")
	}
}
