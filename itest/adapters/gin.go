package adapters

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/latchkey-go/latchkey"
)

// GinLock runs the handlers behind it under a middleware of httpmw.
func GinLock(mw func(http.Handler) http.Handler) gin.HandlerFunc {
	writers := gin.New() // only to make writers
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		c.Request.Pattern = c.FullPath()
		outer, earlier, locked := c.Writer, len(c.Errors), false
		mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			locked = true
			c.Request = r
			if w == http.ResponseWriter(outer) {
				c.Next()
				return
			}
			// A transaction: the answer goes into w, and an error rolls back whatever was answered.
			c.Writer = gin.CreateTestContextOnly(w, writers).Writer
			defer func() { c.Writer = outer }()
			c.Next()
			if len(c.Errors) > earlier {
				_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return c.Errors.Last() })
			}
			c.Writer.WriteHeaderNow()
		})).ServeHTTP(outer, c.Request)
		if !locked {
			c.Abort() // the middleware has answered
		}
	}
}
