//go:build unix

package transactions

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/itest/adapters"
	"github.com/latchkey-go/latchkey/memstore"
)

// deed is what a handler does when it has added one to the account, in the words of each router.
type deed string

const (
	answers        deed = "answers"
	saysNothing    deed = "says nothing"
	refuses        deed = "refuses"             // 400
	orphans        deed = "leaves an orphan"    // which the database refuses at COMMIT
	fails          deed = "fails"               // by an error, where the router has errors: echo and gin
	answersOKFails deed = "answers, then fails" // likewise
)

var errDeed = errors.New("secret reason")

// Each of these serves /<deed>/{id} under mw.
func stdRouter(t *testing.T, mw func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{deed}/{id}", mw(plainDeed(t, func(r *http.Request, name string) string { return r.PathValue(name) })))
	return mux
}

func chiRouter(t *testing.T, mw func(http.Handler) http.Handler) http.Handler {
	c := chi.NewRouter()
	c.With(mw).Handle("/{deed}/{id}", plainDeed(t, chi.URLParam))
	return c
}

func plainDeed(t *testing.T, param func(*http.Request, string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work(t, r, deed(param(r, "deed")))
		switch deed(param(r, "deed")) {
		case answers, orphans:
			_, _ = io.WriteString(w, "done")
		case refuses, fails, answersOKFails:
			http.Error(w, "no", http.StatusBadRequest)
		case saysNothing:
		}
	})
}

func ginRouter(lock func(func(http.Handler) http.Handler) gin.HandlerFunc) routerFunc {
	return func(t *testing.T, mw func(http.Handler) http.Handler) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		g := gin.New()
		g.Any("/:deed/:id", lock(mw), func(c *gin.Context) {
			work(t, c.Request, deed(c.Param("deed")))
			switch deed(c.Param("deed")) {
			case answers, orphans:
				c.JSON(http.StatusOK, "done")
			case refuses:
				c.JSON(http.StatusBadRequest, "no")
			case fails:
				_ = c.Error(errDeed)
			case answersOKFails:
				c.JSON(http.StatusOK, "done")
				_ = c.Error(errDeed)
			case saysNothing:
			}
		})
		return g
	}
}

func echo4Router(lock func(func(http.Handler) http.Handler) echo4.MiddlewareFunc) routerFunc {
	return func(t *testing.T, mw func(http.Handler) http.Handler) http.Handler {
		e := echo4.New()
		e.Any("/:deed/:id", func(c echo4.Context) error {
			return echoDeed(t, c, c.Request(), echo4.NewHTTPError(http.StatusBadRequest, "no"))
		}, lock(mw))
		return e
	}
}

func echo5Router(lock func(func(http.Handler) http.Handler) echo.MiddlewareFunc) routerFunc {
	return func(t *testing.T, mw func(http.Handler) http.Handler) http.Handler {
		e := echo.New()
		e.Any("/:deed/:id", func(c *echo.Context) error {
			return echoDeed(t, c, c.Request(), echo.NewHTTPError(http.StatusBadRequest, "no"))
		}, lock(mw))
		return e
	}
}

func echoDeed(t *testing.T, c interface {
	Param(name string) string
	JSON(status int, v any) error
}, r *http.Request, refusal error) error {
	work(t, r, deed(c.Param("deed")))
	switch deed(c.Param("deed")) {
	case answers, orphans:
		return c.JSON(http.StatusOK, "done")
	case refuses:
		return refusal
	case fails:
		return errDeed
	case answersOKFails:
		if err := c.JSON(http.StatusOK, "done"); err != nil {
			return err
		}
		return errDeed
	case saysNothing:
	}
	return nil
}

// work adds one to the account. Path values are there for every router: the lock has needed them.
func work(t *testing.T, r *http.Request, d deed) {
	t.Helper()
	addOne(t, r)
	if d == orphans {
		tx, _ := latchkey.TxFrom(r.Context())
		if _, err := tx.ExecContext(r.Context(), "INSERT INTO child VALUES ('nobody')"); err != nil {
			t.Error(err)
		}
	}
}

type routerFunc = func(*testing.T, func(http.Handler) http.Handler) http.Handler

// carelessGin ignores the writer that it is given, as anybody might who writes such an adapter.
func carelessGin(mw func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		mw(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	}
}

// carelessEcho4 leaves errors to echo, which hears of them when the transaction is over.
func carelessEcho4(mw func(http.Handler) http.Handler) echo4.MiddlewareFunc {
	return func(next echo4.HandlerFunc) echo4.HandlerFunc {
		locked := echo4.WrapMiddleware(mw)(next)
		return func(c echo4.Context) error {
			for i, name := range c.ParamNames() {
				c.Request().SetPathValue(name, c.ParamValues()[i])
			}
			return locked(c)
		}
	}
}

// request serves one request on a router and returns its answer and what it left in the account.
func request(t *testing.T, router routerFunc, d deed, opts ...httpmw.Option) (status int, body string, n int) {
	t.Helper()
	base := newDatabase(t, "sqlite")
	db := openURL(t, base.driver, base.url+"&_pragma=foreign_keys(1)", 4)
	db.MustExec("CREATE TABLE child (id varchar(20) REFERENCES account(id) DEFERRABLE INITIALLY DEFERRED)")
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	lock := locks.WithLock("account:#{path.id}", latchkey.Transactional(latchkey.NewTxManager(db)), latchkey.MaxHold(time.Minute))
	srv := httptest.NewServer(router(t, httpmw.New(lock, opts...)))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL + "/" + strings.ReplaceAll(string(d), " ", "%20") + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	eventually(t, "released", func() bool { return store.Len() == 0 })
	return resp.StatusCode, string(text), value(t, db, "a")
}

// What a router says to the caller is true of the database, whichever way its handlers answer or fail.
func TestRoutersInATransaction(t *testing.T) {
	for name, router := range map[string]routerFunc{
		"http.ServeMux": stdRouter, "chi": chiRouter, "gin": ginRouter(adapters.GinLock),
		"echo v4": echo4Router(adapters.Echo4Lock), "echo v5": echo5Router(adapters.Echo5Lock),
	} {
		for _, c := range []struct {
			deed   deed
			status int // 1: 400 or more
			body   string
			n      int
		}{
			{answers, http.StatusOK, "done", 1},
			{saysNothing, http.StatusOK, "", 1},
			{refuses, http.StatusBadRequest, "no", 0},
			{orphans, http.StatusInternalServerError, `"code":"INTERNAL"`, 0},
			{fails, 1, "", 0},
			{answersOKFails, 1, "", 0},
		} {
			t.Run(name+" "+string(c.deed), func(t *testing.T) {
				status, body, n := request(t, router, c.deed)
				if (c.status == 1 && status < 400) || (c.status > 1 && status != c.status) || !strings.Contains(body, c.body) || n != c.n {
					t.Errorf("%d %q and the account is at %d; want %d %q, %d", status, body, n, c.status, c.body, c.n)
				}
				if strings.Contains(body, "secret") {
					t.Errorf("the caller sees %q", body)
				}
			})
		}
	}
}

// A router's handlers may answer by other ways than the writer they are given. With an adapter that does not know this, no
// work counts whose answer nobody has seen, and the log says why.
func TestAnAnswerThatBypassesTheTransactionRollsBack(t *testing.T) {
	for name, c := range map[string]struct {
		router routerFunc
		deeds  []deed
	}{
		"gin, writer ignored":     {ginRouter(carelessGin), []deed{answers, refuses, fails, answersOKFails, saysNothing}},
		"echo v4, WrapMiddleware": {echo4Router(carelessEcho4), []deed{refuses, fails, saysNothing}},
		"echo v5, WrapMiddleware": {echo5Router(echo.WrapMiddleware), []deed{refuses, fails, saysNothing}},
	} {
		for _, d := range c.deeds {
			t.Run(name+" "+string(d), func(t *testing.T) {
				heard := make(chan error, 1)
				_, body, n := request(t, c.router, d, httpmw.OnError(
					func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, err error) { heard <- err; p.Write(w) }))
				if n != 0 {
					t.Errorf("the account is at %d, and the caller has seen %q", n, body)
					return
				}
				if err := <-heard; !strings.Contains(err.Error(), "package's documentation") {
					t.Errorf("the log has only %v", err)
				}
			})
		}
	}
}
