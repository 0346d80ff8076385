package adapters

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/latchkey-go/latchkey"
)

// Echo5Lock runs a handler under a middleware of httpmw.
func Echo5Lock(mw func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			for _, p := range c.PathValues() {
				c.Request().SetPathValue(p.Name, p.Value)
			}
			c.Request().Pattern = c.Path()
			outer := c.Response()
			mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				if w == outer {
					err = next(c)
					return
				}
				// A transaction: the answer goes into w, and an error rolls back whatever was answered.
				answer := echo.NewResponse(w, c.Logger())
				c.SetResponse(answer)
				defer c.SetResponse(outer)
				if failed := next(c); failed != nil {
					_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return failed })
					c.Echo().HTTPErrorHandler(c, failed)
				} else if !answer.Committed {
					answer.WriteHeader(http.StatusOK)
				}
			})).ServeHTTP(outer, c.Request())
			return err
		}
	}
}
