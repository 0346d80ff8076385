package httpmw_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/latchkey-go/latchkey/httpmw"
)

// net/http removes the files of a form that was parsed in the request it knows, which is not the one that a locked handler
// has.
func TestFilesOfAFormAreRemovedWhenTheHandlerIsOver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	files := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "multipart-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	var during atomic.Int64
	upload := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		during.Store(int64(files()))
		if r.URL.Query().Has("panic") {
			panic(http.ErrAbortHandler)
		}
	})
	type own struct{}
	s := open(t, func(s *shop, mux *http.ServeMux) {
		lock := httpmw.New(s.locks.WithLock("o:#{path.id}"))
		mux.Handle("/bare/{id}", upload)
		mux.Handle("/locked/{id}", lock(upload))
		mux.Handle("/copied/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lock(upload).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), own{}, 1)))
		}))
		mux.Handle("/parsed/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
			lock(upload).ServeHTTP(w, r)
			if files() != 1 {
				t.Error("the files of somebody else's form are gone")
			}
		}))
	})
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "large")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(part, "%*s", 11<<20, "") // more than the 10 MiB that are kept in memory in any case
	_ = form.Close()
	for _, path := range []string{"/bare/1", "/locked/1", "/locked/1?panic", "/copied/1", "/parsed/1"} {
		during.Store(0)
		if resp, err := s.Client().Post(s.URL+path, form.FormDataContentType(), bytes.NewReader(body.Bytes())); err == nil {
			_ = resp.Body.Close()
		}
		if during.Load() != 1 {
			t.Errorf("%s: void: %d files while the handler ran", path, during.Load())
		}
		soon(t, path+": no file is left", func() bool { return files() == 0 })
	}
}
