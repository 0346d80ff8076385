//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
)

// Every answer to a request whose work did not count, or may not, can be the application's own; what went wrong is for its
// log, and no answer has any of it unless the application puts it there.
func TestEveryAnswerOfATransactionCanBeReplaced(t *testing.T) {
	c := newCuts(t, "postgres")
	c.direct.MustExec("CREATE TABLE child (id varchar(20) REFERENCES account(id) DEFERRABLE INITIALLY DEFERRED)")
	for name, tt := range map[string]struct {
		work  func(t *testing.T, w http.ResponseWriter, r *http.Request)
		code  string
		heard string // a part of the error
	}{
		"the database refuses COMMIT": {func(t *testing.T, _ http.ResponseWriter, r *http.Request) {
			tx, _ := latchkey.TxFrom(r.Context())
			if _, err := tx.ExecContext(r.Context(), "INSERT INTO child VALUES ('nobody')"); err != nil {
				t.Error(err)
			}
		}, "500 INTERNAL", "foreign key"},
		"a hook refuses": {func(t *testing.T, _ http.ResponseWriter, r *http.Request) {
			if err := latchkey.BeforeCommit(r.Context(), func(context.Context) error { return errors.New("secret reason") }); err != nil {
				t.Error(err)
			}
		}, "500 INTERNAL", "secret reason"},
		"the lease is lost": {func(_ *testing.T, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "503 LEASE_LOST", "account:a"},
		"the lease is lost, and the handler says so": {func(_ *testing.T, w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			http.Error(w, "too late", http.StatusInternalServerError)
		}, "503 LEASE_LOST", "account:a"},
		"too long": {func(_ *testing.T, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("x", 101))
		}, "500 ANSWER_TOO_LARGE", "MaxAnswer"},
		"the outcome is unknown": {func(*testing.T, http.ResponseWriter, *http.Request) { c.arm(cutReply) }, "500 OUTCOME_UNKNOWN", "unknown"},
	} {
		maxHold := time.Minute
		if strings.HasPrefix(name, "the lease is lost") {
			maxHold = 50 * time.Millisecond
		}
		work := func(w http.ResponseWriter, r *http.Request) {
			addOne(t, r)
			tt.work(t, w, r)
			fmt.Fprint(w, "done")
		}
		t.Run(name, func(t *testing.T) {
			b := newBank(t, c.db, maxHold, work, httpmw.MaxAnswer(100))
			status, body, header := ask(t, b)
			code, _, _ := strings.Cut(status, " ")
			if want := strings.Fields(tt.code); code != want[0] || !strings.Contains(body, `"code":"`+want[1]+`"`) {
				t.Errorf("%s %q, want %s", status, body, tt.code)
			}
			for _, secret := range []string{"account", "secret", "foreign key", "child", "lk:", "127.0.0.1", "latchkey", "EOF", "connection"} {
				if whole := body + header; strings.Contains(whole, secret) {
					t.Errorf("the answer %q has %q in it", whole, secret)
				}
			}
		})
		t.Run(name+", replaced", func(t *testing.T) {
			heard := make(chan error, 1)
			b := newBank(t, c.db, maxHold, work, httpmw.MaxAnswer(100), httpmw.OnError(
				func(w http.ResponseWriter, _ *http.Request, p httpmw.Problem, err error) {
					heard <- err
					w.WriteHeader(http.StatusTeapot)
					fmt.Fprint(w, p.Status, p.Code)
				}))
			status, body, _ := ask(t, b)
			if !strings.HasPrefix(status, "418") || body != strings.ReplaceAll(tt.code, " ", "") {
				t.Errorf("%s %q, want 418 with %s", status, body, tt.code)
			}
			if err := <-heard; !strings.Contains(err.Error(), tt.heard) {
				t.Errorf("heard %v, want %q", err, tt.heard)
			}
		})
	}
}

// ask sends the bank a request.
func ask(t *testing.T, b *bank) (status, body, header string) {
	t.Helper()
	resp, err := b.Client().Get(b.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.Status, string(text), fmt.Sprint(resp.Header)
}
