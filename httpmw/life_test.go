package httpmw_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// soon waits for something that must become true.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("not within 10 s: ", what)
			return
		}
	}
}

// overlaps sends many requests for one order at once and counts how often two handlers were inside together.
func overlaps(t *testing.T, locked bool) (ran, together int64) {
	t.Helper()
	const requests = 40
	var inside, ranHere, togetherHere atomic.Int64
	s := open(t, func(s *shop, mux *http.ServeMux) {
		work := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			ranHere.Add(1)
			if inside.Add(1) > 1 {
				togetherHere.Add(1)
			}
			time.Sleep(time.Millisecond) // the work
			inside.Add(-1)
		}))
		if locked {
			work = httpmw.New(s.locks.WithLock("order:#{path.id}", latchkey.Wait(20*time.Second)))(work)
		}
		mux.Handle("POST /orders/{id}", work)
	})
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			resp, err := s.Client().Post(s.URL+"/orders/42", "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	wg.Wait()
	return ranHere.Load(), togetherHere.Load()
}

func TestHandlersOfOneKeyNeverRunTogether(t *testing.T) {
	if ran, together := overlaps(t, true); ran != 40 || together != 0 {
		t.Errorf("%d ran, %d of them while another was inside", ran, together)
	}
	if ran, together := overlaps(t, false); together == 0 {
		t.Errorf("control: %d ran without the lock and none met another: the test shows nothing", ran)
	}
}

func TestPanicsPassAfterTheRelease(t *testing.T) {
	passed := make(chan any, 1)
	s := open(t, func(s *shop, mux *http.ServeMux) {
		d := s.locks.WithLock("o:#{path.id}")
		watch := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					r := recover()
					if n := s.store.Len(); n != 0 {
						t.Errorf("%v: %d locks held when the panic arrived outside", r, n)
					}
					passed <- r
					panic(http.ErrAbortHandler)
				}()
				next.ServeHTTP(w, r)
			})
		}
		throw := func(v any) http.Handler {
			return watch(httpmw.New(d)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if !s.locks.Held(r.Context(), "o:1") {
					t.Error("not held")
				}
				panic(v)
			})))
		}
		mux.Handle("/panic/{id}", throw("boom"))
		mux.Handle("/abort/{id}", throw(http.ErrAbortHandler))
	})
	for path, want := range map[string]any{"/panic/1": "boom", "/abort/1": http.ErrAbortHandler} {
		if got := s.raw(t, "GET "+path+" HTTP/1.1"); !strings.HasPrefix(got.body, "no answer") {
			t.Errorf("%s: answered %d %q", path, got.status, got.body)
		}
		if r := <-passed; r != want {
			t.Errorf("%s: %v arrived outside, want %v", path, r, want)
		}
	}
}

func TestACallerThatGoesAwayWhileWaitingLeavesTheQueue(t *testing.T) {
	waiting, gone := make(chan struct{}, 1), make(chan httpmw.Problem, 1)
	var s *shop
	store := memstore.New()
	locks := latchkey.New(store, latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	})))
	defer locks.Close()
	s = open(t, func(s *shop, mux *http.ServeMux) {
		s.store, s.locks, s.others = store, locks, latchkey.New(store)
		mux.Handle("/{id}", httpmw.New(locks.WithLock("o:#{path.id}", latchkey.WaitForever()),
			httpmw.OnError(func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, _ error) {
				gone <- p
				p.Write(w)
			}))(never(t)))
	})
	release := s.hold(t, "o:1")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting; cancel() }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/1", nil)
	if resp, err := s.Client().Do(req); !errors.Is(err, context.Canceled) {
		_ = resp.Body.Close()
		t.Errorf("client: %v", err)
	}
	if p := <-gone; p.Status != 0 || p.Code != "CALLER_GONE" {
		t.Errorf("%+v", p)
	}
	release()
	soon(t, "the queue is empty", func() bool { return store.Len() == 0 })
}

func TestACallerThatGoesAwayWhileTheHandlerRunsEndsItsContextAndTheLockIsReleased(t *testing.T) {
	running, done := make(chan struct{}), make(chan struct{})
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("/{id}", httpmw.New(s.locks.WithLock("o:#{path.id}"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			defer close(done)
			close(running)
			<-r.Context().Done()
			if !errors.Is(context.Cause(r.Context()), context.Canceled) {
				t.Errorf("cause %v", context.Cause(r.Context()))
			}
		})))
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-running; cancel() }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/1", nil)
	if resp, err := s.Client().Do(req); err == nil {
		_ = resp.Body.Close()
	}
	<-done
	soon(t, "the lock is released", func() bool { return s.store.Len() == 0 })
}

// A server that is told to stop cancels, by its BaseContext, requests whose callers are still there. Nothing ran, so
// they must not see 200, which is what net/http makes of a handler that returns without an answer.
func TestAServerThatStopsWhileACallerWaitsDoesNotSayOK(t *testing.T) {
	waiting := make(chan struct{}, 1)
	store := memstore.New()
	locks := latchkey.New(store, latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	})))
	defer locks.Close()
	base, stop := context.WithCancel(t.Context())
	srv := httptest.NewUnstartedServer(httpmw.New(locks.WithLock("o", latchkey.WaitForever()))(never(t)))
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	defer srv.Close()
	lease, err := latchkey.New(store).Acquire(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	go func() { <-waiting; stop() }()
	resp, err := srv.Client().Get(srv.URL)
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("the caller saw %s", resp.Status)
	}
}

func TestAServerThatShutsDownWhileAHandlerRunsLetsItFinishUnderItsLock(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("/{id}", httpmw.New(s.locks.WithLock("o:#{path.id}"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(running)
			<-finish
			fmt.Fprint(w, s.locks.Held(r.Context(), "o:1"), r.Context().Err())
		})))
	})
	down := make(chan error, 1)
	go func() {
		<-running
		go func() { down <- s.Config.Shutdown(context.Background()) }()
		soon(t, "the listener is closed", func() bool {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
		close(finish)
	}()
	if got := s.raw(t, "GET /1 HTTP/1.1"); got.body != "true <nil>" && got.body != "true<nil>" {
		t.Errorf("%q", got.body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestTheResponseWriterIsUntouched(t *testing.T) {
	s := open(t, func(s *shop, mux *http.ServeMux) {
		locked := httpmw.New(s.locks.WithLock("o:#{path.id}"))
		var outer http.ResponseWriter
		same := locked(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, isFlusher := w.(http.Flusher)
			_, isHijacker := w.(http.Hijacker)
			_, isReaderFrom := w.(io.ReaderFrom)
			fmt.Fprint(w, w == outer, isFlusher, isHijacker, isReaderFrom)
		}))
		mux.HandleFunc("/same/{id}", func(w http.ResponseWriter, r *http.Request) { outer = w; same.ServeHTTP(w, r) })
		mux.Handle("/events/{id}", locked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(w)
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := rc.Flush(); err != nil {
					t.Error(err)
				}
			}
			<-r.Context().Done() // until the client has seen them and goes
		})))
		mux.Handle("/socket/{id}", locked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			fmt.Fprintf(rw, "%s, held: %v\n", strings.TrimSpace(line), s.locks.Held(r.Context(), "o:1"))
			_ = rw.Flush()
		})))
	})
	if got := s.raw(t, "GET /same/1 HTTP/1.1"); got.body != "true true true true" {
		t.Errorf("writer: %q", got.body)
	}

	resp, err := s.Client().Get(s.URL + "/events/1")
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewScanner(resp.Body)
	for i := 0; i < 3 && events.Scan(); {
		if text := events.Text(); text != "" {
			if want := fmt.Sprintf("data: %d", i); text != want {
				t.Errorf("event %q, want %q", text, want)
			}
			i++
		}
	}
	if n := s.store.Len(); n != 1 {
		t.Errorf("%d locks while the stream is open", n)
	}
	_ = resp.Body.Close()

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(conn)
	soon(t, "the stream's lock is released", func() bool { return s.store.Len() == 0 })
	fmt.Fprint(conn, "GET /socket/1 HTTP/1.1\r\nHost: shop\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	up, err := http.ReadResponse(in, nil)
	if err != nil || up.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(up, err)
	}
	defer up.Body.Close()
	fmt.Fprint(conn, "hello\n")
	if line, _ := in.ReadString('\n'); line != "hello, held: true\n" {
		t.Errorf("socket said %q", line)
	}
	soon(t, "the socket's lock is released", func() bool { return s.store.Len() == 0 })
}

func TestHTTP2(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	mux := http.NewServeMux()
	mux.Handle("POST /{id}", httpmw.New(locks.WithLock("o:#{path.id}:#{body.x}"))(http.HandlerFunc(sayKeys)))
	srv := httptest.NewUnstartedServer(mux)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	resp, err := srv.Client().Post(srv.URL+"/1", "application/json", strings.NewReader(`{"x":2}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 2 || string(body) != `o:1:2 | {"x":2}` {
		t.Errorf("%s %q", resp.Proto, body)
	}
}
