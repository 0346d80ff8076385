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
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/httpmw"
)

// overtaken is a service whose requests hold their lock, with its token, for a while before their transaction begins. In
// that while, if newer is set, another holder commits: of a store that does not know of the first one.
type overtaken struct {
	db    *sqlx.DB
	m     *latchkey.TxManager
	locks *latchkey.Locks
	newer bool
}

func newOvertaken(t *testing.T, db *sqlx.DB) *overtaken {
	t.Helper()
	db.MustExec("UPDATE account SET n = 0")
	db.MustExec("DELETE FROM latchkey_fence")
	o := &overtaken{db: db, m: latchkey.NewTxManager(db, latchkey.Fenced()), locks: latchkey.New(newMinter(10))}
	t.Cleanup(o.locks.Close)
	return o
}

func (o *overtaken) outer(template string) *latchkey.Decorator {
	return o.locks.WithLock(template, latchkey.MintToken())
}

func (o *overtaken) inner(template string) *latchkey.Decorator {
	return o.locks.WithLock(template, latchkey.Transactional(o.m))
}

// between is what happens after the lock was taken and before the transaction begins.
func (o *overtaken) between(t *testing.T) {
	t.Helper()
	if !o.newer {
		return
	}
	others := latchkey.New(newMinter(20))
	defer others.Close()
	if err := latchkey.Action(others.WithLock("account:#{param}", latchkey.Transactional(o.m)), func(ctx context.Context, id string) error {
		tx, _ := latchkey.TxFrom(ctx)
		return add(ctx, tx, id, 100)
	})(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// work is what a request does in its transaction.
func (o *overtaken) work(ctx context.Context) error {
	tx, ok := latchkey.TxFrom(ctx)
	if !ok {
		return errors.New("no transaction")
	}
	return add(ctx, tx, "a", 1)
}

func (o *overtaken) checkAccount(t *testing.T, want int) {
	t.Helper()
	if n := value(t, o.db, "a"); n != want {
		t.Errorf("the account is at %d, want %d", n, want)
	}
}

func TestAFencedHandlerIsAnsweredWith503AndLeavesNothing(t *testing.T) {
	db := newDatabase(t, "postgres").open(t, 8)
	for newer, want := range map[bool]struct {
		status     int
		body       string
		retryAfter string
		account    int
	}{
		true:  {http.StatusServiceUnavailable, `"code":"LEASE_LOST"`, "1", 100},
		false: {http.StatusOK, "done", "", 1},
	} {
		t.Run(fmt.Sprintf("a newer holder: %v", newer), func(t *testing.T) {
			o := newOvertaken(t, db)
			o.newer = newer
			work := httpmw.New(o.inner("account:#{path.id}"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := o.work(r.Context()); err != nil {
					t.Error(err)
				}
				fmt.Fprint(w, "done")
			}))
			mux := http.NewServeMux()
			mux.Handle("/{id}", httpmw.New(o.outer("account:#{path.id}"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				o.between(t)
				work.ServeHTTP(w, r)
			})))
			srv := httptest.NewServer(mux)
			defer srv.Close()
			resp, err := srv.Client().Get(srv.URL + "/a")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != want.status || !strings.Contains(string(body), want.body) || resp.Header.Get("Retry-After") != want.retryAfter {
				t.Errorf("%s %q, Retry-After %q; want %+v", resp.Status, body, resp.Header.Get("Retry-After"), want)
			}
			o.checkAccount(t, want.account)
		})
	}
}

// details returns what a status says besides its code.
func details(err error) (reason string, retry bool) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			retry = true
		}
	}
	return reason, retry
}

func TestAFencedMethodIsAbortedAndLeavesNothing(t *testing.T) {
	db := newDatabase(t, "postgres").open(t, 8)
	for newer, want := range map[bool]struct {
		code    codes.Code
		reason  string
		account int
	}{
		true:  {codes.Aborted, "LEASE_LOST", 100},
		false: {codes.OK, "", 1},
	} {
		t.Run(fmt.Sprintf("a newer holder: %v", newer), func(t *testing.T) {
			o := newOvertaken(t, db)
			o.newer = newer
			method, key := grpc_health_v1.Health_Check_FullMethodName, "account:#{req.service}"
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(
				grpcmw.UnaryServerInterceptor(o.locks, grpcmw.Method(method, key, latchkey.MintToken())),
				func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
					o.between(t)
					return handler(ctx, req)
				},
				grpcmw.UnaryServerInterceptor(o.locks, grpcmw.Method(method, key, latchkey.Transactional(o.m))),
			))
			grpc_health_v1.RegisterHealthServer(server, &teller{check: o.work})
			err := callHealth(t, server)
			if reason, _ := details(err); status.Code(err) != want.code || reason != want.reason {
				t.Errorf("%v (%s), want %v (%s)", err, reason, want.code, want.reason)
			}
			o.checkAccount(t, want.account)
		})
	}
}

// The connection is cut in COMMIT, and nothing can tell what became of it: the caller must not be told either way, nor to
// come back.
func TestAMethodWhoseOutcomeNobodyKnows(t *testing.T) {
	c := newCuts(t, "postgres")
	locks := latchkey.New(newMinter(10), latchkey.RenewedLease(30*time.Second))
	defer locks.Close()
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(
		grpc_health_v1.Health_Check_FullMethodName, "account:#{req.service}", latchkey.Transactional(latchkey.NewTxManager(c.db))))))
	grpc_health_v1.RegisterHealthServer(server, &teller{check: func(ctx context.Context) error {
		tx, _ := latchkey.TxFrom(ctx)
		return add(ctx, tx, "a", 1)
	}})
	c.arm(cutReply)
	err := callHealth(t, server)
	reason, retry := details(err)
	if status.Code(err) != codes.Unknown || reason != "OUTCOME_UNKNOWN" || retry {
		t.Errorf("%v (%s), told to come back: %v", err, reason, retry)
	}
	if cut := c.proxy.Counts().Cut; cut == 0 {
		t.Error("no connection was cut: this shows nothing")
	}
	for _, secret := range []string{"account", "COMMIT", "commit", "EOF", "reset", "127.0.0.1"} {
		if text := status.Convert(err).Proto().String(); strings.Contains(text, secret) {
			t.Errorf("the status %q has %q in it", text, secret)
		}
	}
}
