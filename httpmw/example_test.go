package httpmw_test

import (
	"context"
	"fmt"
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
	defer lease.Release(context.Background()) //nolint:errcheck // the example ends here

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
