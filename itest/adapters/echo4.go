package adapters

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/latchkey-go/latchkey"
)

// Echo4Lock runs a handler under a middleware of httpmw.
func Echo4Lock(mw func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			for i, name := range c.ParamNames() {
				c.Request().SetPathValue(name, c.ParamValues()[i])
			}
			c.Request().Pattern = c.Path()
			outer := c.Response()
			mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				if w == http.ResponseWriter(outer) {
					err = next(c)
					return
				}
				// A transaction: the answer goes into w, and an error rolls back whatever was answered.
				answer := echo.NewResponse(w, c.Echo())
				c.SetResponse(answer)
				defer c.SetResponse(outer)
				if failed := next(c); failed != nil {
					_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return failed })
					c.Error(failed)
				} else if !answer.Committed {
					answer.WriteHeader(http.StatusOK)
				}
			})).ServeHTTP(outer, c.Request())
			return err
		}
	}
}
