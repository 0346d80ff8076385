package httpmw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a server on a real listener whose locks live in store.
type shop struct {
	*httptest.Server
	store  *memstore.Store
	locks  *latchkey.Locks // the server's
	others *latchkey.Locks // another process's
	loses  bool            // leases run out here, and the store forgets those later
}

// open starts a shop; routes says what it serves.
func open(t *testing.T, routes func(s *shop, mux *http.ServeMux)) *shop {
	t.Helper()
	s := &shop{store: memstore.New()}
	s.locks, s.others = latchkey.New(s.store), latchkey.New(s.store)
	mux := http.NewServeMux()
	routes(s, mux)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Close()
		s.locks.Close()
		s.others.Close()
		if !s.loses { // a waiter that gave up is taken back in the background
			soon(t, "no lock is left", func() bool { return s.store.Len() == 0 })
		}
	})
	return s
}

// hold takes a lock in the name of another process until the test ends.
func (s *shop) hold(t *testing.T, key string) (release func()) {
	t.Helper()
	lease, err := s.others.Acquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = lease.Release(context.Background()) }
	t.Cleanup(release)
	return release
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request line, headers and a body, exactly as they are written, and reads the answer to its end.
func (s *shop) raw(t *testing.T, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	head, body, _ := strings.Cut(request, "\n\n")
	head = strings.ReplaceAll(head, "\n", "\r\n")
	if !strings.Contains(head, "Host:") {
		head += "\r\nHost: shop"
	}
	fmt.Fprintf(conn, "%s\r\nConnection: close\r\n\r\n%s", head, body)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{body: "no answer: " + err.Error()}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// post is raw with a body of a known length.
func (s *shop) post(t *testing.T, path, contentType, body string) answer {
	t.Helper()
	return s.raw(t, fmt.Sprintf("POST %s HTTP/1.1\nContent-Type: %s\nContent-Length: %d\n\n%s", path, contentType, len(body), body))
}

// sayKeys answers with the keys of the lease, and with the body that the handler saw.
func sayKeys(w http.ResponseWriter, r *http.Request) {
	lease, ok := latchkey.LeaseFrom(r.Context())
	if !ok {
		fmt.Fprint(w, "unlocked")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fmt.Fprint(w, "the body can't be read: ", err)
		return
	}
	fmt.Fprint(w, strings.Join(lease.Keys(), " "))
	if len(body) > 0 {
		fmt.Fprint(w, " | ", string(body))
	}
}
