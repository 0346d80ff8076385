// Package httpmw runs HTTP handlers under a distributed lock whose key comes from the request.
//
//	locked := httpmw.New(locks.WithLock("order:#{path.id}", latchkey.Wait(3*time.Second)))
//	mux.Handle("POST /orders/{id}/pay", locked(pay))
//
// # Names in the key template
//
//	path.id               a wildcard of the route, unescaped
//	query.sku             a parameter of the URL
//	header["X-Tenant"]    a header, in any case
//	cookie.sid            a cookie
//	form.x                a field of a form in the body
//	body.x                a member of a JSON body; [Body] gives it a type, which the template is checked against
//	method, host, route   the request's method, its host in lower case, and the pattern that matched
//
// A value that is missing or blank is an error and the handler does not run; write #{query.coupon ?? "none"} where
// that is fine. A parameter, header, cookie or field that is given several times with different values is an error too:
// the lock and the handler might pick different ones. So is a field that has another value in the URL, and JSON in which
// an object has a member twice; a form is one only where net/http takes it for one: not in the body of a GET or DELETE,
// unless it is multipart. JSON without a declared type is compared by exact names, and a
// member that is there in two cases is refused for the same reason; lists in it can't be used: declare a type.
//
// Path values are what [http.Request.PathValue] says, unescaped if the router has not done so, so that one resource has
// one key however its path was written. The rest of a path, as in gin's *rest, has gin's slash in front, which others leave
// out: two routers don't share such keys. The middleware must run inside the router: around a single route, not around
// the mux. http.ServeMux and chi provide path values by themselves. gin and echo need a few lines, which pass on the path
// values, the answer and the errors of their handlers:
//
//	func GinLock(mw func(http.Handler) http.Handler) gin.HandlerFunc {
//		writers := gin.New() // only to make writers
//		return func(c *gin.Context) {
//			for _, p := range c.Params {
//				c.Request.SetPathValue(p.Key, p.Value)
//			}
//			c.Request.Pattern = c.FullPath()
//			outer, earlier, locked := c.Writer, len(c.Errors), false
//			mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//				locked = true
//				c.Request = r
//				if w == http.ResponseWriter(outer) {
//					c.Next()
//					return
//				}
//				// A transaction: the answer goes into w, and an error rolls back whatever was answered.
//				c.Writer = gin.CreateTestContextOnly(w, writers).Writer
//				defer func() { c.Writer = outer }()
//				c.Next()
//				if len(c.Errors) > earlier {
//					_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return c.Errors.Last() })
//				}
//				c.Writer.WriteHeaderNow()
//			})).ServeHTTP(outer, c.Request)
//			if !locked {
//				c.Abort() // the middleware has answered
//			}
//		}
//	}
//
//	func Echo4Lock(mw func(http.Handler) http.Handler) echo.MiddlewareFunc {
//		return func(next echo.HandlerFunc) echo.HandlerFunc {
//			return func(c echo.Context) (err error) {
//				for i, name := range c.ParamNames() {
//					c.Request().SetPathValue(name, c.ParamValues()[i])
//				}
//				c.Request().Pattern = c.Path()
//				outer := c.Response()
//				mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//					c.SetRequest(r)
//					if w == http.ResponseWriter(outer) {
//						err = next(c)
//						return
//					}
//					// A transaction: the answer goes into w, and an error rolls back whatever was answered.
//					answer := echo.NewResponse(w, c.Echo())
//					c.SetResponse(answer)
//					defer c.SetResponse(outer)
//					if failed := next(c); failed != nil {
//						_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return failed })
//						c.Error(failed)
//					} else if !answer.Committed {
//						answer.WriteHeader(http.StatusOK)
//					}
//				})).ServeHTTP(outer, c.Request())
//				return err
//			}
//		}
//	}
//
//	func Echo5Lock(mw func(http.Handler) http.Handler) echo.MiddlewareFunc {
//		return func(next echo.HandlerFunc) echo.HandlerFunc {
//			return func(c *echo.Context) (err error) {
//				for _, p := range c.PathValues() {
//					c.Request().SetPathValue(p.Name, p.Value)
//				}
//				c.Request().Pattern = c.Path()
//				outer := c.Response()
//				mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//					c.SetRequest(r)
//					if w == outer {
//						err = next(c)
//						return
//					}
//					// A transaction: the answer goes into w, and an error rolls back whatever was answered.
//					answer := echo.NewResponse(w, c.Logger())
//					c.SetResponse(answer)
//					defer c.SetResponse(outer)
//					if failed := next(c); failed != nil {
//						_ = latchkey.BeforeCommit(r.Context(), func(context.Context) error { return failed })
//						c.Echo().HTTPErrorHandler(c, failed)
//					} else if !answer.Committed {
//						answer.WriteHeader(http.StatusOK)
//					}
//				})).ServeHTTP(outer, c.Request())
//				return err
//			}
//		}
//	}
//
// Errors of gin's and echo's handlers roll a transaction back then, whatever was answered. Without these lines, as with
// echo.WrapMiddleware, a transaction can't know what the router will tell the caller: a handler that wrote nothing to
// the ResponseWriter of the middleware is rolled back, with 500.
//
// fiber is not supported: it runs on fasthttp, which has no http.Request and reuses the memory of the values it gives
// out, so that a key would change while it is locked. There, wrap the function that the handler calls with
// [latchkey.Func], whose arguments are copies of your own.
//
// # What the handler gets
//
// The handler gets the ResponseWriter that came in, untouched: Flusher, Hijacker, ReaderFrom and
// [http.ResponseController] work. The request's context ends when the lease is lost. A body that the key needed is
// read within a bound ([MaxBody]) and handed to the handler again, whole. So is, over HTTP/1, the body of a request that
// may wait: net/http notices that a caller has gone only once the body has been read. A caller that asked with Expect:
// 100-continue is told to go on before the wait. A body over the bound stays for the handler to read, unless the key
// needs it, and its caller is not missed while it waits. The lock is released when the handler
// returns, also by a panic, which passes on. Work that goes on longer, in a goroutine or on a hijacked connection, keeps
// the lock with [latchkey.Detach].
//
// # Transactions
//
// With [latchkey.Transactional] the handler runs in a transaction, and its answer is held back, within a bound
// ([MaxAnswer]), until the database has answered COMMIT: the caller never sees 200 for work that was undone. A status of
// 400 or more rolls back. The ResponseWriter can't flush or be hijacked then; deadlines
// and trailers work.
//
// # What the caller gets
//
//	lock busy                 409, Retry-After
//	no key in the request     400
//	body over the bound       413, if the key needs it
//	half a body               400, if the key needs it or the request may wait
//	store down                503, Retry-After
//	lease lost, work done     what the handler wrote
//	in a transaction:
//	  lease lost, fenced      503, Retry-After: it was rolled back
//	  COMMIT refused          500: it was rolled back
//	  outcome unknown         500
//
// with a problem document (RFC 9457) that contains neither the key nor what a backend said. A caller that is gone, or
// whose server cancelled it, gets no answer: the connection is aborted as by [http.ErrAbortHandler], since returning
// without one would be 200. Where a router recovers from that, as gin does, the answer is 503. [OnError] replaces all of
// them.
//
// Outside a transaction the handler answers for a lost lease itself: one that returns in silence when its context ends
// answers 200, as it would without a lock. [context.Cause] tells a lost lease from a caller that is gone.
package httpmw
