package httpmw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// halted is a server that is at work for one caller and has another one wait for it.
type halted struct {
	*httptest.Server
	store   *memstore.Store
	finish  chan struct{} // ends the work of all who do not end with their context
	answers chan string   // one for each caller
}

// halfway returns when one caller is in the handler and the other waits. The handler runs until finish, or until its
// context ends.
func halfway(t *testing.T) *halted {
	t.Helper()
	h := &halted{store: memstore.New(), finish: make(chan struct{}), answers: make(chan string, 2)}
	waiting, running := make(chan struct{}, 1), make(chan struct{}, 2)
	locks := latchkey.New(h.store, latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	})))
	mux := http.NewServeMux()
	mux.Handle("/{id}", httpmw.New(locks.WithLock("o:#{path.id}", latchkey.WaitForever()))(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			running <- struct{}{}
			select {
			case <-h.finish:
			case <-r.Context().Done():
			}
			fmt.Fprintf(w, "held: %v", locks.Held(r.Context(), "o:1"))
		})))
	h.Server = httptest.NewServer(mux)
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			resp, err := h.Client().Get(h.URL + "/1")
			if err != nil {
				h.answers <- "no answer"
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			h.answers <- fmt.Sprint(resp.StatusCode, " ", string(body))
		})
	}
	<-running
	<-waiting
	t.Cleanup(func() {
		callers.Wait()
		h.Close()
		locks.Close()
	})
	return h
}

func TestAServerThatShutsDownLetsWaitersAndHoldersFinish(t *testing.T) {
	h := halfway(t)
	down := make(chan error, 1)
	go func() { down <- h.Config.Shutdown(context.Background()) }()
	soon(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", h.Listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(h.finish)
	for range 2 {
		if got := <-h.answers; got != "200 held: true" {
			t.Errorf("answered %q", got)
		}
	}
	if err := <-down; err != nil || h.store.Len() != 0 {
		t.Errorf("Shutdown: %v, %d locks are left", err, h.store.Len())
	}
}

func TestAServerThatIsClosedReleasesEverything(t *testing.T) {
	h := halfway(t)
	if err := h.Config.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if got := <-h.answers; got != "no answer" {
			t.Errorf("answered %q", got)
		}
	}
	soon(t, "nothing is held or queued for", func() bool { return h.store.Len() == 0 })
}

// A caller that promises more than it sends must not be taken at its word for what it did send.
func TestATruncatedBodyIsRefused(t *testing.T) {
	s := open(t, func(s *shop, mux *http.ServeMux) {
		mux.Handle("/b", httpmw.New(s.locks.WithLock("b:#{body.sku}"))(never(t)))
	})
	for name, request := range map[string]string{
		"shorter than its length": "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{\"sku\":\"a\"}",
		"without its last chunk":  "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{\"sku\":\"a\"}\r\n",
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		_ = conn.Close()
		got := answer{resp.StatusCode, resp.Header, string(body)}
		if p := checkProblem(t, name, got); p.Status != http.StatusBadRequest || p.Code != "LOCK_KEY_MISSING" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
