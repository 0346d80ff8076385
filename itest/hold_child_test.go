//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// holder is a process that holds a lock, renewed, until it is told to let go.
//
//	args   address, key, lease
//	says   "held"
//	hears  "look"    and says what the context of its function says, see verdict
//	hears  anything  and lets its function return "result"; then it says what the call returned, see returned
func holder(self *testenv.Self) {
	lease, err := time.ParseDuration(self.Args[2])
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	s := connect(env, self.Args[0])
	hold := latchkey.Func(s.WithLock("#{param}", latchkey.Wait(patience), latchkey.RenewedLease(lease)),
		func(ctx context.Context, _ string) (string, error) {
			self.Sayf("held")
			for {
				if line, _ := self.Hear(); line != "look" {
					return "result", nil
				}
				self.Sayf("%s", verdict(ctx))
			}
		})
	for {
		self.Sayf("%s", returned(hold(context.Background(), self.Args[1])))
		if again, _ := self.Hear(); again != "again" {
			break
		}
	}
	env.Close()
}

// verdict asks a context about a lease, Err first.
func verdict(ctx context.Context) string {
	err := ctx.Err()
	done := false
	select {
	case <-ctx.Done():
		done = true
	default:
	}
	return fmt.Sprintf("err=%v lost=%t done=%t", err, errors.Is(context.Cause(ctx), latchkey.ErrLeaseLost), done)
}

func returned(result string, err error) string {
	return fmt.Sprintf("%s, failed=%t lost=%t", result, err != nil, errors.Is(err, latchkey.ErrLeaseLost))
}

const (
	stillHeld = "err=<nil> lost=false done=false"
	lostIt    = "err=context canceled lost=true done=true"
	endedWell = "result, failed=false lost=false"
	endedLost = "result, failed=true lost=true"
)

func holdIn(t testenv.TB, srv *testenv.Server, key string, lease time.Duration) *testenv.ChildProcess {
	t.Helper()
	c := testenv.Child(t, "holder", testenv.Args(srv.Addr(), key, lease.String()))
	expect(t, c, "held")
	return c
}

// expect hears one line and ends the test if it is another one.
func expect(t testenv.TB, c *testenv.ChildProcess, want string) {
	t.Helper()
	if got := c.Hear(t); got != want {
		t.Fatalf("the child said %q, not %q", got, want)
	}
}
