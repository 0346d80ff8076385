package httpmw

import (
	"errors"
	"net/http"
)

var errBypassed = errors.New("httpmw: the handler wrote nothing to the ResponseWriter that it was given, and this router's " +
	"handlers have other ways to answer: use the adapter for it in the package's documentation")

// bypassable reports whether w is the writer of a router whose handlers may answer by other means than the ResponseWriter
// that they are given: gin's keep their own, and those of echo return errors. Where nothing was written there, it is not
// known what the caller will be told.
func bypassable(w http.ResponseWriter) bool {
	for {
		switch w.(type) {
		case interface{ WriteHeaderNow() }, interface{ Before(hook func()) }: // gin, echo
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}
