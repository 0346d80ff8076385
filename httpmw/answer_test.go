package httpmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
)

// downStore is a store whose server is not there.
type downStore struct{ latchkey.Store }

var errDown = errors.New("dial tcp 10.1.2.3:6379: secret backend")

func (d *downStore) Capabilities() latchkey.Capabilities { return latchkey.Capabilities{Instant: true} }
func (d *downStore) Do(_ context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		op.Err, op.Final = errDown, true
	}
}

func never(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran without its lock") })
}

// checkProblem looks at a problem document and returns it.
func checkProblem(t *testing.T, name string, got answer) httpmw.Problem {
	t.Helper()
	var p httpmw.Problem
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		t.Errorf("%s: %q is no problem document: %v", name, got.body, err)
	}
	if p.Status != got.status || p.Title == "" || p.Code == "" {
		t.Errorf("%s: status %d says %+v", name, got.status, p)
	}
	if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", name, kind)
	}
	whole := fmt.Sprint(got.header, got.body)
	for _, secret := range []string{"order:zebra", "zebra", "secret", "10.1.2.3", "lk:", "latchkey"} {
		if strings.Contains(whole, secret) {
			t.Errorf("%s: the answer %q has %q in it", name, whole, secret)
		}
	}
	return p
}

func TestAnswers(t *testing.T) {
	lock := func(s *shop, opts ...latchkey.DecoratorOption) *latchkey.Decorator {
		return s.locks.WithLock("order:#{path.id}", opts...)
	}
	down := latchkey.New(&downStore{})
	for name, c := range map[string]struct {
		hold       string
		here       bool // held by the server's own process
		handler    func(s *shop) http.Handler
		body       string
		status     int
		retryAfter string
		code       string
	}{
		"busy": {hold: "order:zebra", handler: func(s *shop) http.Handler { return httpmw.New(lock(s))(never(t)) },
			status: http.StatusConflict, retryAfter: "30", code: "LOCK_BUSY"},
		"busy after a wait": {hold: "order:zebra", handler: func(s *shop) http.Handler {
			return httpmw.New(lock(s, latchkey.Wait(30*time.Millisecond)))(never(t))
		}, status: http.StatusConflict, retryAfter: "30", code: "LOCK_BUSY"},
		"busy in the same process": {hold: "order:zebra", here: true, handler: func(s *shop) http.Handler {
			return httpmw.New(lock(s))(never(t))
		}, status: http.StatusConflict, retryAfter: "30", code: "LOCK_BUSY"},
		"busy in the same process, after a wait": {hold: "order:zebra", here: true, handler: func(s *shop) http.Handler {
			return httpmw.New(lock(s, latchkey.Wait(30*time.Millisecond)))(never(t))
		}, status: http.StatusConflict, retryAfter: "30", code: "LOCK_BUSY"},
		"busy, another status": {hold: "order:zebra", handler: func(s *shop) http.Handler {
			return httpmw.New(lock(s), httpmw.BusyStatus(http.StatusLocked), httpmw.MaxRetryAfter(1500*time.Millisecond))(never(t))
		}, status: http.StatusLocked, retryAfter: "2", code: "LOCK_BUSY"},
		"deadline shorter than the wait": {hold: "order:zebra", handler: func(s *shop) http.Handler {
			next := httpmw.New(lock(s, latchkey.WaitForever()))(never(t))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeout(r.Context(), 30*time.Millisecond)
				defer cancel()
				next.ServeHTTP(w, r.WithContext(ctx))
			})
		}, status: http.StatusConflict, retryAfter: "30", code: "LOCK_BUSY"},
		"key missing": {handler: func(s *shop) http.Handler {
			return httpmw.New(s.locks.WithLock("order:#{path.nobody}"))(never(t))
		}, status: http.StatusBadRequest, code: "LOCK_KEY_MISSING"},
		"body over the bound": {handler: func(s *shop) http.Handler {
			return httpmw.New(s.locks.WithLock("order:#{body.id}"), httpmw.MaxBody(8))(never(t))
		}, body: `{"id":123}`, status: http.StatusRequestEntityTooLarge, code: "BODY_TOO_LARGE"},
		"store down": {handler: func(*shop) http.Handler {
			return httpmw.New(down.WithLock("order:#{path.id}"))(never(t))
		}, status: http.StatusServiceUnavailable, retryAfter: "1", code: "LOCK_STORE_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(s *shop, mux *http.ServeMux) { mux.Handle("/orders/{id}", c.handler(s)) })
			if c.here {
				s.others = s.locks
			}
			if c.hold != "" {
				s.hold(t, c.hold)
			}
			for _, method := range []string{"POST", "HEAD", "OPTIONS"} {
				got := s.raw(t, fmt.Sprintf("%s /orders/zebra HTTP/1.1\nContent-Length: %d\n\n%s", method, len(c.body), c.body))
				if got.status != c.status || got.header.Get("Retry-After") != c.retryAfter {
					t.Errorf("%s: %d, Retry-After %q, want %d, %q", method, got.status, got.header.Get("Retry-After"), c.status, c.retryAfter)
				}
				if method == "HEAD" {
					if got.body != "" || got.header.Get("Content-Length") == "" {
						t.Errorf("HEAD: body %q, Content-Length %q", got.body, got.header.Get("Content-Length"))
					}
					continue
				}
				if p := checkProblem(t, method, got); p.Code != c.code {
					t.Errorf("%s: code %q, want %q", method, p.Code, c.code)
				}
			}
		})
	}
}

func TestBodies(t *testing.T) {
	const bound = 64
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("/b", httpmw.New(s.locks.WithLock("b:#{body.sku}"), httpmw.MaxBody(bound))(http.HandlerFunc(sayKeys)))
		mux.Handle("/plain", httpmw.New(s.locks.WithLock("b"), httpmw.MaxBody(bound))(http.HandlerFunc(sayKeys)))
	})
	full := `{"sku":"a","pad":"` + strings.Repeat("x", bound-len(`{"sku":"a","pad":""}`)) + `"}`
	for name, c := range map[string]struct {
		request string
		status  int
		want    string
	}{
		"none":                 {"POST /b HTTP/1.1", 400, ""},
		"empty":                {"POST /b HTTP/1.1\nContent-Length: 0", 400, ""},
		"blank":                {"POST /b HTTP/1.1\nContent-Length: 2\n\n  ", 400, ""},
		"invalid":              {"POST /b HTTP/1.1\nContent-Length: 5\n\n{\"sku", 400, ""},
		"two values":           {"POST /b HTTP/1.1\nContent-Length: 24\n\n{\"sku\":\"a\"} {\"sku\":\"b\"} ", 400, ""},
		"full":                 {fmt.Sprintf("POST /b HTTP/1.1\nContent-Length: %d\n\n%s", bound, full), 200, "b:a | " + full},
		"a byte over":          {fmt.Sprintf("POST /b HTTP/1.1\nContent-Length: %d\n\n%s ", bound+1, full), 413, ""},
		"chunked":              {"POST /b HTTP/1.1\nTransfer-Encoding: chunked\n\n6\r\n{\"sku\"\r\n5\r\n:\"a\"}\r\n0\r\n\r\n", 200, `b:a | {"sku":"a"}`},
		"chunked, a byte over": {fmt.Sprintf("POST /b HTTP/1.1\nTransfer-Encoding: chunked\n\n%x\r\n%s \r\n0\r\n\r\n", bound+1, full), 413, ""},
		"broken chunks":        {"POST /b HTTP/1.1\nTransfer-Encoding: chunked\n\n6\r\n{\"sku\"\r\nzz\r\n", 400, ""},
		"not needed, over":     {fmt.Sprintf("POST /plain HTTP/1.1\nContent-Length: %d\n\n%s ", bound+1, full), 200, "b | " + full + " "},
	} {
		got := s.raw(t, c.request)
		if got.status != c.status || c.status == 200 && got.body != c.want {
			t.Errorf("%s: %d %q, want %d %q", name, got.status, got.body, c.status, c.want)
		}
		if c.status != 200 {
			checkProblem(t, name, got)
		}
	}
}

func TestOnErrorAnswersInstead(t *testing.T) {
	var mu sync.Mutex
	heard := make(map[string]error)
	down := latchkey.New(&downStore{})
	s := open(t, func(s *shop, mux *http.ServeMux) {
		onError := httpmw.OnError(func(w http.ResponseWriter, r *http.Request, p httpmw.Problem, err error) {
			mu.Lock()
			defer mu.Unlock()
			heard[p.Code] = err
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, "%s %d %s", r.Method, p.Status, p.Code)
		})
		mux.Handle("/busy/{id}", httpmw.New(s.locks.WithLock("order:#{path.id}"), onError)(never(t)))
		mux.Handle("/key/{id}", httpmw.New(s.locks.WithLock("order:#{path.nobody}"), onError)(never(t)))
		mux.Handle("/body/{id}", httpmw.New(s.locks.WithLock("order:#{body.id}"), httpmw.MaxBody(1), onError)(never(t)))
		mux.Handle("/down/{id}", httpmw.New(down.WithLock("order:#{path.id}"), onError)(never(t)))
	})
	s.hold(t, "order:zebra")
	for path, want := range map[string]string{
		"busy": "POST 409 LOCK_BUSY", "key": "POST 400 LOCK_KEY_MISSING", "body": "POST 413 BODY_TOO_LARGE",
		"down": "POST 503 LOCK_STORE_UNAVAILABLE",
	} {
		if got := s.raw(t, "POST /"+path+"/zebra HTTP/1.1\nContent-Length: 2\n\n{}"); got.status != http.StatusTeapot || got.body != want {
			t.Errorf("%s: %d %q, want %q", path, got.status, got.body, want)
		}
	}
	var busy *latchkey.BusyError
	if !errors.As(heard["LOCK_BUSY"], &busy) || busy.Key != "order:zebra" || !errors.Is(heard["LOCK_STORE_UNAVAILABLE"], errDown) {
		t.Errorf("heard %v", heard)
	}
}

func TestRequestsThatAFilterExceptsRunUnlocked(t *testing.T) {
	s := open(t, func(s *shop, mux *http.ServeMux) {
		vip := httpmw.Filter(func(r *http.Request) bool { return r.Header.Get("Vip") == "" })
		mux.Handle("/{id}", httpmw.New(s.locks.WithLock("o:#{path.id}"), httpmw.Methods("POST", "PUT"), vip)(http.HandlerFunc(sayKeys)))
	})
	for request, want := range map[string]string{
		"POST /1 HTTP/1.1": "o:1", "PUT /1 HTTP/1.1": "o:1", "GET /1 HTTP/1.1": "unlocked", "OPTIONS /1 HTTP/1.1": "unlocked",
		"POST /1 HTTP/1.1\nVip: yes": "unlocked",
	} {
		if got := s.raw(t, request); got.body != want {
			t.Errorf("%s: %q, want %q", request, got.body, want)
		}
	}
}

func TestALeaseLostAfterTheWorkAddsNothingToTheAnswer(t *testing.T) {
	lost := make(chan error, 1)
	s := open(t, func(s *shop, mux *http.ServeMux) {
		s.loses = true
		d := s.locks.WithLock("o:#{path.id}", latchkey.LeaseFor(20*time.Millisecond))
		lose := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
				t.Errorf("cause %v", cause)
			}
			fmt.Fprint(w, "done")
		})
		mux.Handle("/quiet/{id}", httpmw.New(d)(lose))
		mux.Handle("/heard/{id}", httpmw.New(d, httpmw.OnError(func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, err error) {
			if !p.Answered || p.Code != "LEASE_LOST" {
				t.Errorf("%+v", p)
			}
			p.Write(w) // does nothing
			lost <- err
		}))(lose))
	})
	for _, path := range []string{"/quiet/1", "/heard/1"} {
		if got := s.raw(t, "GET "+path+" HTTP/1.1"); got.status != 200 || got.body != "done" {
			t.Errorf("%s: %d %q", path, got.status, got.body)
		}
	}
	if err := <-lost; !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("OnError heard %v", err)
	}
}
