//go:build unix

package itest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	echo4 "github.com/labstack/echo/v4"
	echo4mw "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	echomw "github.com/labstack/echo/v5/middleware"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/itest/adapters"
	"github.com/latchkey-go/latchkey/memstore"
)

type middlewareFunc = func(http.Handler) http.Handler

// routers are the same service on every router: a lock around one route each, and around a group of routes.
func routers(mw middlewareFunc, work http.HandlerFunc) map[string]http.Handler {
	gin.SetMode(gin.ReleaseMode)
	newGin := func(set func(*gin.Engine)) http.Handler {
		g := gin.New()
		set(g)
		g.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
		g.Any("/orders/:id/pay", adapters.GinLock(mw), func(c *gin.Context) { work(c.Writer, c.Request) })
		g.Any("/files/*rest", adapters.GinLock(mw), func(c *gin.Context) { work(c.Writer, c.Request) })
		return g
	}
	std := http.NewServeMux()
	std.Handle("/orders/{id}/pay", mw(work))
	std.Handle("/files/{rest...}", mw(work))

	c := chi.NewRouter()
	c.Use(middleware.Recoverer)
	c.With(mw).HandleFunc("/orders/{id}/pay", work)
	c.Route("/files", func(r chi.Router) { r.With(mw).HandleFunc("/*", work) })

	sub := chi.NewRouter()
	sub.With(mw).HandleFunc("/{id}/pay", work)
	mounted := chi.NewRouter()
	mounted.Mount("/orders", sub)

	e4 := echo4.New()
	e4.Use(echo4mw.RecoverWithConfig(echo4mw.RecoverConfig{DisablePrintStack: true, LogErrorFunc: func(_ echo4.Context, err error, _ []byte) error { return err }}))
	e4.Any("/orders/:id/pay", echo4.WrapHandler(work), adapters.Echo4Lock(mw))
	e4.Any("/files/*", echo4.WrapHandler(work), adapters.Echo4Lock(mw))

	e5 := echo.New()
	e5.Use(echomw.Recover())
	e5.Any("/orders/:id/pay", echo.WrapHandler(work), adapters.Echo5Lock(mw))
	e5.Any("/files/*", echo.WrapHandler(work), adapters.Echo5Lock(mw))

	return map[string]http.Handler{
		"http.ServeMux": std, "chi": c, "chi, mounted": mounted, "echo v4": e4, "echo v5": e5,
		"gin":                 newGin(func(*gin.Engine) {}),
		"gin, raw path":       newGin(func(g *gin.Engine) { g.UseRawPath = true }),
		"gin, raw values":     newGin(func(g *gin.Engine) { g.UseRawPath, g.UnescapePathValues = true, false }),
		"gin, escaped path":   newGin(func(g *gin.Engine) { g.UseEscapedPath = true }),
		"gin, escaped values": newGin(func(g *gin.Engine) { g.UseEscapedPath, g.UnescapePathValues = true, false }),
	}
}

func sayKey(w http.ResponseWriter, r *http.Request) {
	if lease, ok := latchkey.LeaseFrom(r.Context()); ok {
		fmt.Fprint(w, lease.Key())
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// One resource has one key, whichever router found it and however its path was written.
func TestRoutersAgreeOnTheKeyOfAnEscapedPath(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	defer http.DefaultClient.CloseIdleConnections()
	mw := httpmw.New(locks.WithLock("order/#{path.id}"))
	for name, router := range routers(mw, sayKey) {
		srv := httptest.NewServer(router)
		seen := 0
		for path, want := range map[string]string{
			"/orders/a/pay": "order/a", "/orders/%61/pay": "order/a", "/orders/%2561/pay": "order/%2561",
			"/orders/a%2Fb/pay": "order/a%2Fb", "/orders/a%2fb/pay": "order/a%2Fb", "/orders/%61%2F%62/pay": "order/a%2Fb",
			"/orders/a%252Fb/pay": "order/a%252Fb", "/orders/%61%252Fb/pay": "order/a%252Fb", "/orders/%C3%A9/pay": "order/é",
			"/orders/%c3%a9/pay": "order/é", "/orders/a%20b/pay": "order/a%20b", "/orders/a+b/pay": "order/a%2Bb",
			"/orders/100%25/pay": "order/100%25", "/orders/%31%30%30%25/pay": "order/100%25",
		} {
			status, got := get(t, srv.URL+path)
			if status == http.StatusNotFound && strings.Contains(strings.ToLower(path), "%2f") {
				continue // this router takes an escaped slash for a slash, so it is no such resource
			}
			if name == "gin, escaped path" && path == "/orders/a+b/pay" {
				want = "order/a%20b" // gin reads the path as if it were a query there; the handler sees the same
			}
			if want, got := readable(want), readable(got); got != want {
				t.Errorf("%s: %s is %d %q, want %q", name, path, status, got, want)
			}
			seen++
		}
		if seen < 11 {
			t.Errorf("%s: only %d paths arrived", name, seen)
		}
		srv.Close()
	}
}

// readable undoes what the key encodes only to be readable or not.
func readable(key string) string { return strings.NewReplacer("%2B", "+", "%C3%A9", "é").Replace(key) }

func TestRoutersAnswerForTheLock(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	defer http.DefaultClient.CloseIdleConnections()
	lease, err := latchkey.New(store).Acquire(t.Context(), "order/held")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	ran := false
	work := func(w http.ResponseWriter, r *http.Request) {
		ran = true
		if strings.HasSuffix(r.URL.Path, "/boom/pay") {
			panic("boom")
		}
		sayKey(w, r)
	}
	for name, router := range routers(httpmw.New(locks.WithLock("order/#{path.id}")), work) {
		srv := httptest.NewServer(router)
		if status, body := get(t, srv.URL+"/orders/held/pay"); status != http.StatusConflict || !strings.Contains(body, "LOCK_BUSY") || ran {
			t.Errorf("%s, busy: %d %q, ran: %v", name, status, body, ran)
		}
		if name != "chi, mounted" {
			if status, body := get(t, srv.URL+"/files/x"); status != http.StatusBadRequest || !strings.Contains(body, "path.id is missing") || ran {
				t.Errorf("%s, no such path value: %d %q, ran: %v", name, status, body, ran)
			}
		}
		if name != "http.ServeMux" && !strings.HasPrefix(name, "chi, ") {
			if status, body := get(t, srv.URL+"/orders/boom/pay"); status != http.StatusInternalServerError || store.Len() != 1 {
				t.Errorf("%s, panic: %d %q, %d locks", name, status, body, store.Len()-1)
			}
		}
		ran = false
		if status, body := get(t, srv.URL+"/orders/free/pay"); status != http.StatusOK || body != "order/free" || !ran {
			t.Errorf("%s, free: %d %q, ran: %v", name, status, body, ran)
		}
		ran = false
		srv.Close()
	}
}

func TestRoutesByPattern(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for name, router := range routers(httpmw.New(locks.WithLock("#{route}")), sayKey) {
		srv := httptest.NewServer(router)
		_, a := get(t, srv.URL+"/orders/1/pay")
		_, b := get(t, srv.URL+"/orders/2/pay")
		if a == "" || a != b || !strings.Contains(a, "orders") {
			t.Errorf("%s: %q and %q", name, a, b)
		}
		srv.Close()
	}
}

func TestWebSocketUnderALock(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	work := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Write(r.Context(), kind, fmt.Appendf(text, ", held: %v", locks.Held(r.Context(), "order/1")))
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	for name, router := range routers(httpmw.New(locks.WithLock("order/#{path.id}")), work) {
		srv := httptest.NewServer(router)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		conn, _, err := websocket.Dial(ctx, srv.URL+"/orders/1/pay", nil) //nolint:bodyclose // the library says not to
		if err != nil {
			t.Fatal(name, err)
		}
		_ = conn.Write(ctx, websocket.MessageText, []byte("hello"))
		if _, text, err := conn.Read(ctx); err != nil || string(text) != "hello, held: true" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		_, _, _ = conn.Read(ctx)
		_ = conn.CloseNow()
		cancel()
		eventually(t, name+": the lock is released", func() bool { return store.Len() == 0 })
		srv.Close()
	}
}

// gin recovers from the panic that aborts a connection, and says 200 if nobody has said anything else.
func TestAServerThatStopsWhileACallerOfGinWaitsDoesNotSayOK(t *testing.T) {
	waiting := make(chan struct{}, 1)
	store := memstore.New()
	locks := latchkey.New(store, latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	})))
	defer locks.Close()
	lease, err := latchkey.New(store).Acquire(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.Use(gin.RecoveryWithWriter(io.Discard))
	g.Any("/", adapters.GinLock(httpmw.New(locks.WithLock("o", latchkey.WaitForever()))), func(*gin.Context) {
		t.Error("the handler ran without its lock")
	})
	base, stop := context.WithCancel(t.Context())
	srv := httptest.NewUnstartedServer(g)
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	go func() { <-waiting; stop() }()
	if status, body := get(t, srv.URL); status != http.StatusServiceUnavailable {
		t.Errorf("the caller saw %d %q, want 503", status, body)
	}
}

// The rest of a path has one key per router: gin's begins with the slash, as its own c.Param says.
func TestTheRestOfAPathAsEachRouterHasIt(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, name := range []string{"rest", "*"} {
		for router, h := range routers(httpmw.New(locks.WithLock(`f:#{path["`+name+`"]}`)), sayKey) {
			want := map[bool]string{true: "f:a/b c"}[(name == "rest") == (router == "http.ServeMux")]
			if strings.HasPrefix(router, "gin") {
				want = map[string]string{"rest": "f:/a/b c"}[name]
			}
			if router == "chi, mounted" {
				continue // it has no such route
			}
			srv := httptest.NewServer(h)
			for _, path := range []string{"/files/a/b%20c", "/files/%61/b%20c"} {
				status, got := get(t, srv.URL+path)
				if want == "" && status == http.StatusBadRequest {
					continue
				}
				if got = strings.ReplaceAll(got, "%20", " "); got != want {
					t.Errorf("%s: path.%s of %s is %d %q, want %q", router, name, path, status, got, want)
				}
			}
			srv.Close()
		}
	}
}
