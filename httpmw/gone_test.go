package httpmw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// leaver is a server whose handler waits for a lock that another process holds.
type leaver struct {
	*shop
	waiting chan struct{}
	heard   chan httpmw.Problem
	ran     atomic.Int64
	body    chan string // that the handler saw
}

func openLeaver(t *testing.T, opts ...httpmw.Option) *leaver {
	l := &leaver{waiting: make(chan struct{}, 8), heard: make(chan httpmw.Problem, 8), body: make(chan string, 8)}
	store := memstore.New()
	locks := latchkey.New(store, latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			l.waiting <- struct{}{}
		}
	})))
	onError := httpmw.OnError(func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, _ error) {
		l.heard <- p
		p.Write(w)
	})
	l.shop = open(t, func(s *shop, mux *http.ServeMux) {
		s.store, s.locks, s.others = store, locks, latchkey.New(store)
		mux.Handle("/{id}", httpmw.New(locks.WithLock("o:#{path.id}", latchkey.WaitForever()), append(opts, onError)...)(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				l.ran.Add(1)
				text, err := io.ReadAll(r.Body)
				l.body <- fmt.Sprint(string(text), err, len(r.Trailer["Sum"]))
			})))
	})
	return l
}

// dial sends the start of a request and leaves the connection open.
func (s *shop) dial(t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	head, body, _ := strings.Cut(request, "\n\n")
	fmt.Fprintf(conn, "%s\r\nHost: shop\r\n\r\n%s", strings.ReplaceAll(head, "\n", "\r\n"), body)
	return conn
}

// net/http looks whether the caller is there only once the body has been read, which no handler can do that is not running.
func TestACallerWithABodyThatGoesAwayWhileWaitingLeavesTheQueue(t *testing.T) {
	for name, request := range map[string]string{
		"no body":      "POST /1 HTTP/1.1\nContent-Length: 0",
		"of a length":  "POST /1 HTTP/1.1\nContent-Length: 4\n\nbody",
		"chunked":      "POST /1 HTTP/1.1\nTransfer-Encoding: chunked\n\n4\r\nbody\r\n0\r\n\r\n",
		"as it may be": "POST /1 HTTP/1.1\nContent-Length: 8\n\nbodybody",
		"asked for":    "POST /1 HTTP/1.1\nExpect: 100-continue\nContent-Length: 4",
	} {
		t.Run(name, func(t *testing.T) {
			l := openLeaver(t, httpmw.MaxBody(8))
			release := l.hold(t, "o:1")
			conn := l.dial(t, request)
			if name == "asked for" {
				if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "100 Continue") {
					t.Fatalf("heard %q", line)
				}
				fmt.Fprint(conn, "body")
			}
			<-l.waiting
			_ = conn.Close()
			select {
			case p := <-l.heard:
				if p.Code != "CALLER_GONE" {
					t.Errorf("%+v", p)
				}
			case <-time.After(5 * time.Second):
				t.Error("still in the queue 5 s after its caller had gone")
			}
			release()
			soon(t, "the queue is empty", func() bool { return l.store.Len() == 0 })
			if n := l.ran.Load(); n != 0 {
				t.Errorf("the handler ran %d times for a caller that was gone", n)
			}
		})
	}
}

// Half a body is all that will come: there is nothing to wait for.
func TestACallerThatGoesAwayInItsBodyDoesNotQueue(t *testing.T) {
	for name, request := range map[string]string{
		"of a length": "POST /1 HTTP/1.1\nContent-Length: 4\n\nbo",
		"chunked":     "POST /1 HTTP/1.1\nTransfer-Encoding: chunked\n\n4\r\nbo",
		"no chunks":   "POST /1 HTTP/1.1\nTransfer-Encoding: chunked\n\nxx\r\n\r\n",
	} {
		l := openLeaver(t)
		release := l.hold(t, "o:1")
		conn := l.dial(t, request)
		_ = conn.(*net.TCPConn).CloseWrite()
		select {
		case p := <-l.heard:
			if p.Code != "BODY_INCOMPLETE" || p.Status != http.StatusBadRequest {
				t.Errorf("%s: %+v", name, p)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: no answer for 5 s", name)
		}
		release()
		soon(t, "the queue is empty", func() bool { return l.store.Len() == 0 })
		if n := l.ran.Load(); n != 0 {
			t.Errorf("%s: the handler ran", name)
		}
	}
}

// What was read before the wait is what the handler reads.
func TestABodyIsWholeAfterTheWait(t *testing.T) {
	long := strings.Repeat("x", 20)
	for name, c := range map[string]struct{ request, want string }{
		"of a length":           {"POST /1 HTTP/1.1\nContent-Length: 4\n\nbody", "body<nil> 0"},
		"chunked, with trailer": {"POST /1 HTTP/1.1\nTransfer-Encoding: chunked\nTrailer: Sum\n\n4\r\nbody\r\n0\r\nSum: 4\r\n\r\n", "body<nil> 1"},
		"over the bound":        {"POST /1 HTTP/1.1\nContent-Length: 20\n\n" + long, long + "<nil> 0"},
		"chunked, over":         {"POST /1 HTTP/1.1\nTransfer-Encoding: chunked\n\n14\r\n" + long + "\r\n0\r\n\r\n", long + "<nil> 0"},
		"none":                  {"POST /1 HTTP/1.1", "<nil> 0"},
	} {
		l := openLeaver(t, httpmw.MaxBody(8))
		release := l.hold(t, "o:1")
		conn := l.dial(t, c.request)
		<-l.waiting
		release()
		if got := <-l.body; got != c.want {
			t.Errorf("%s: the handler saw %q, want %q", name, got, c.want)
		}
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", name, resp, err)
		} else {
			_ = resp.Body.Close()
		}
	}
}

// Who does not wait is answered at once, and no body is read that the key does not need: its caller need not send it.
func TestABodyIsNotReadIfNobodyWaits(t *testing.T) {
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("/{id}", httpmw.New(s.locks.WithLock("o:#{path.id}"))(never(t)))
	})
	s.hold(t, "o:1")
	conn := s.dial(t, "POST /1 HTTP/1.1\nExpect: 100-continue\nContent-Length: 4")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("%s, want 409 before the body", resp.Status)
	}
}
