package httpmw_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// One order is paid by one request at a time; another one is told to come back.
func ExampleNew() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()

	paying, finish := make(chan struct{}), make(chan struct{})
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(paying)
		<-finish
		fmt.Fprint(w, "paid")
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", httpmw.New(locks.WithLock("order:#{path.id}"))(pay))

	first := make(chan int)
	go func() { first <- post(mux, "/orders/42/pay", "").Code }()
	<-paying
	second := post(mux, "/orders/42/pay", "")
	close(finish)
	fmt.Println("first:", <-first)
	fmt.Println("second:", second.Code, second.Header().Get("Retry-After"), second.Body)
	// Output:
	// first: 200
	// second: 409 30 {"title":"Somebody else is at work on this","status":409,"code":"LOCK_BUSY"}
}

// The template is checked against the type of the body when the handler is wrapped.
func ExampleBody() {
	type basket struct {
		Items []struct {
			SKU string `json:"sku"`
		} `json:"items"`
	}
	locks := latchkey.New(memstore.New())
	defer locks.Close()

	_, err := httpmw.TryNew(locks.WithLock("sku:#{map(body.item, .sku)}"), httpmw.Body[basket]())
	fmt.Println(err)

	reserve := httpmw.HandlerFunc(locks.WithLock("sku:#{map(body.items, .sku)}"), func(w http.ResponseWriter, r *http.Request) {
		lease, _ := latchkey.LeaseFrom(r.Context())
		fmt.Fprint(w, lease.Keys())
	}, httpmw.Body[basket]())
	fmt.Println(post(reserve, "/", `{"items":[{"sku":"rum"},{"sku":"gin"}]}`).Body)
	// Output:
	// latchkey: key template: httpmw_test.basket has no member "item" (1:16)
	//  | sku:#{map(body.item, .sku)}
	//  | ...............^
	// hint: did you mean Items?
	// [sku:gin sku:rum]
}

// The answer is the application's own, and the log learns what the caller must not see: the key.
func ExampleOnError() {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	lease, err := locks.Acquire(context.Background(), "order:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(context.Background())

	pay := httpmw.HandlerFunc(locks.WithLock("order:#{path.id}"), func(http.ResponseWriter, *http.Request) {},
		httpmw.BusyStatus(http.StatusLocked),
		httpmw.OnError(func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, err error) {
			fmt.Println("log:", err)
			p.Detail = "try again in a moment"
			p.RetryAfter = 2 * time.Second
			p.Write(w)
		}))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", pay)
	busy := post(mux, "/orders/42", "")
	fmt.Println("caller:", busy.Code, busy.Header().Get("Retry-After"), busy.Body)
	// Output:
	// log: latchkey: lock "order:42" is busy
	// caller: 423 2 {"title":"Somebody else is at work on this","status":423,"detail":"try again in a moment","code":"LOCK_BUSY"}
}

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	h.ServeHTTP(w, r)
	return w
}

// A handler that hijacks its connection returns at once; the work on the connection keeps the lock.
func ExampleNew_detach() {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	done := make(chan struct{})
	socket := httpmw.HandlerFunc(locks.WithLock("room:#{path.id}"), func(w http.ResponseWriter, r *http.Request) {
		lease, err := latchkey.Detach(r.Context(), time.Hour)
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = lease.Release(context.Background())
			return
		}
		go func() {
			defer close(done)
			defer lease.Release(context.Background())
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: room\r\nConnection: Upgrade\r\n\r\n")
			fmt.Fprintf(conn, "in the room: %v\n", locks.Held(lease.Context(), "room:7"))
		}()
	})
	mux := http.NewServeMux()
	mux.Handle("GET /rooms/{id}", socket)
	srv := httptest.NewServer(mux)
	defer srv.Close()

	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /rooms/7 HTTP/1.1\r\nHost: x\r\nUpgrade: room\r\nConnection: Upgrade\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	_, said, _ := strings.Cut(string(answer), "\r\n\r\n")
	fmt.Print(said)
	<-done
	fmt.Println("locks left:", store.Len())
	// Output:
	// in the room: true
	// locks left: 0
}

// A service that holds a lock calls another one that needs the same lock.
func ExampleTransport() {
	store := memstore.New() // one Redis in real life: the services are different processes
	billing, shop := latchkey.New(store), latchkey.New(store)
	defer billing.Close()
	defer shop.Close()

	charge := httpmw.HandlerFunc(billing.WithLock("order:#{path.id}"), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "charged ", r.PathValue("id"))
	}, httpmw.AcceptLeases())
	mux := http.NewServeMux()
	mux.Handle("POST /charge/{id}", charge)
	srv := httptest.NewServer(mux)
	defer srv.Close()

	client := &http.Client{Transport: httpmw.Transport(srv.Client().Transport)}
	pay := latchkey.Func(shop.WithLock("order:#{param}"), func(ctx context.Context, id string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/charge/"+id, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	})
	fmt.Println(pay(context.Background(), "42"))
	// Output: charged 42 <nil>
}
