//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// bank is an HTTP server whose handlers run in transactions under a lock.
type bank struct {
	*httptest.Server
	db    *sqlx.DB
	store *memstore.Store
	locks *latchkey.Locks
}

func newBank(
	t *testing.T, db *sqlx.DB, maxHold time.Duration, handler http.HandlerFunc, opts ...httpmw.Option,
) *bank {
	t.Helper()
	b := &bank{db: db, store: memstore.New()}
	b.locks = latchkey.New(b.store)
	lock := b.locks.WithLock("account:#{path.id}", latchkey.Transactional(latchkey.NewTxManager(db)), latchkey.MaxHold(maxHold))
	mux := http.NewServeMux()
	mux.Handle("/{id}", httpmw.New(lock, opts...)(handler))
	b.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		b.Close()
		b.locks.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// addOne is a handler's work: it adds one to the account in the path.
func addOne(t *testing.T, r *http.Request) {
	t.Helper()
	tx, ok := latchkey.TxFrom(r.Context())
	if !ok {
		t.Error("the handler has no transaction")
		return
	}
	if err := add(r.Context(), tx, r.PathValue("id"), 1); err != nil {
		t.Error(err)
	}
}

func TestAnAnswerIsHeldBackUntilCommit(t *testing.T) {
	d := newDatabase(t, "sqlite")
	url := d.url + "&_pragma=foreign_keys(1)"
	db := openURL(t, d.driver, url, 4)
	db.MustExec("CREATE TABLE child (id varchar(20) REFERENCES account(id) DEFERRABLE INITIALLY DEFERRED)")
	for name, c := range map[string]struct {
		handler func(t *testing.T, w http.ResponseWriter, r *http.Request)
		status  int
		body    string // or a part of it
		added   int
	}{
		"committed": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Own", "yes")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "made")
		}, http.StatusCreated, "made", 1},
		"nothing written": {func(*testing.T, http.ResponseWriter, *http.Request) {}, http.StatusOK, "", 1},
		"a status below 400": {func(_ *testing.T, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
		}, http.StatusSeeOther, "", 1},
		"a status of 400": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "own refusal", http.StatusBadRequest)
		}, http.StatusBadRequest, "own refusal", 0},
		"a status of 500": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "own failure", http.StatusInternalServerError)
		}, http.StatusInternalServerError, "own failure", 0},
		"the database refuses COMMIT": {func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			tx, _ := latchkey.TxFrom(r.Context())
			if _, err := tx.ExecContext(r.Context(), "INSERT INTO child VALUES ('nobody')"); err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, "done")
		}, http.StatusInternalServerError, `"code":"INTERNAL"`, 0},
		"a hook refuses": {func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			err := latchkey.BeforeCommit(r.Context(), func(context.Context) error { return errors.New("secret reason") })
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, "done")
		}, http.StatusInternalServerError, `"code":"INTERNAL"`, 0},
		"the lease is lost": {func(_ *testing.T, w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "done")
			<-r.Context().Done()
		}, http.StatusServiceUnavailable, `"code":"LEASE_LOST"`, 0},
		"the lease is lost, and the handler says so": {func(_ *testing.T, w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			http.Error(w, "too late", http.StatusInternalServerError)
		}, http.StatusServiceUnavailable, `"code":"LEASE_LOST"`, 0},
		"too long": {func(t *testing.T, w http.ResponseWriter, _ *http.Request) {
			if _, err := fmt.Fprint(w, strings.Repeat("x", 101)); err == nil {
				t.Error("the handler is not told that its answer is too long")
			}
		}, http.StatusInternalServerError, `"code":"ANSWER_TOO_LARGE"`, 0},
		"as long as may be": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("x", 100))
		}, http.StatusOK, strings.Repeat("x", 100), 1},
		"flush and hijack": {func(t *testing.T, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "held")
			rc := http.NewResponseController(w)
			_, _, err := rc.Hijack()
			if !errors.Is(rc.Flush(), http.ErrNotSupported) || !errors.Is(err, http.ErrNotSupported) {
				t.Error("an answer that is held back can be flushed or hijacked")
			}
		}, http.StatusOK, "held", 1},
	} {
		t.Run(name, func(t *testing.T) {
			db.MustExec("UPDATE account SET n = 0")
			maxHold := time.Minute
			if strings.HasPrefix(name, "the lease is lost") {
				maxHold = 50 * time.Millisecond
			}
			b := newBank(t, db, maxHold, func(w http.ResponseWriter, r *http.Request) {
				addOne(t, r)
				c.handler(t, w, r)
			}, httpmw.MaxAnswer(100))
			resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(b.URL + "/a")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(string(body), c.body) || strings.Contains(string(body), "secret") {
				t.Errorf("%s %q, want %d %q", resp.Status, body, c.status, c.body)
			}
			if name == "committed" && resp.Header.Get("X-Own") != "yes" {
				t.Errorf("the handler's headers are lost: %v", resp.Header)
			}
			if n := value(t, db, "a"); n != c.added {
				t.Errorf("the account is at %d, want %d", n, c.added)
			}
			eventually(t, "released", func() bool { return b.store.Len() == 0 })
		})
	}
}

func TestAPanicInATransactionRollsBackAndPasses(t *testing.T) {
	d := newDatabase(t, "sqlite")
	b := newBank(t, d.open(t, 4), time.Minute, func(w http.ResponseWriter, r *http.Request) {
		addOne(t, r)
		fmt.Fprint(w, "done")
		panic(http.ErrAbortHandler)
	})
	if resp, err := http.Get(b.URL + "/a"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("answered %s", resp.Status)
	}
	eventually(t, "released", func() bool { return b.store.Len() == 0 })
	if n := value(t, b.db, "a"); n != 0 {
		t.Errorf("the account is at %d", n)
	}
}

// The connection is cut in COMMIT, and nothing can tell what became of it: the caller must not be told either way, nor to
// come back.
func TestAnOutcomeThatNobodyKnows(t *testing.T) {
	c := newCuts(t, "postgres")
	b := newBank(t, c.db, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		addOne(t, r)
		fmt.Fprint(w, "done")
	})
	c.arm(cutReply)
	resp, err := http.Get(b.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "OUTCOME_UNKNOWN") || resp.Header.Get("Retry-After") != "" {
		t.Errorf("%s %q, Retry-After %q", resp.Status, body, resp.Header.Get("Retry-After"))
	}
}

// What net/http offers besides, an answer that is held back has too, or says that it has not.
func TestAHeldAnswerIsLikeNetHTTPs(t *testing.T) {
	db := newDatabase(t, "sqlite").open(t, 4)
	for name, c := range map[string]struct {
		handler func(t *testing.T, w http.ResponseWriter, r *http.Request)
		status  int // 0: the connection is aborted
		trailer string
		n       int
	}{
		"a trailer that was announced": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, "done")
			w.Header().Set("X-Sum", "4")
			w.Header().Set("X-Late", "no")
		}, http.StatusOK, "4", 1},
		"a trailer that was not": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("x", 5000)) // what is shorter has a Content-Length, and no trailer without net/http being told
			w.Header().Set(http.TrailerPrefix+"X-Sum", "4")
		}, http.StatusOK, "4", 1},
		"a status of 0":    {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(0) }, 0, "", 0},
		"a status of 1000": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }, 0, "", 0},
		"deadlines": {func(t *testing.T, w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			end := time.Now().Add(time.Minute)
			if err := errors.Join(rc.SetReadDeadline(end), rc.SetWriteDeadline(end), rc.EnableFullDuplex()); err != nil {
				t.Error(err)
			}
		}, http.StatusOK, "", 1},
		"a deadline that is over": {func(t *testing.T, w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Error(err)
			}
		}, 0, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			db.MustExec("UPDATE account SET n = 0")
			b := newBank(t, db, time.Minute, func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if p := recover(); p != nil {
						panic(http.ErrAbortHandler) // which is not written to the log
					}
				}()
				addOne(t, r)
				c.handler(t, w, r)
			})
			resp, err := http.Get(b.URL + "/a")
			switch {
			case err != nil && c.status != 0:
				t.Error(err)
			case err == nil:
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != c.status || resp.Trailer.Get("X-Sum") != c.trailer || resp.Header.Get("X-Late")+resp.Trailer.Get("X-Late") != "" {
					t.Errorf("%s, headers %v, trailers %v; want %d, trailer %q", resp.Status, resp.Header, resp.Trailer, c.status, c.trailer)
				}
			}
			eventually(t, "released", func() bool { return b.store.Len() == 0 })
			if n := value(t, db, "a"); n != c.n {
				t.Errorf("the account is at %d, want %d", n, c.n)
			}
		})
	}
}

// eventually waits for what must become true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 30 s: ", what)
		}
	}
}
