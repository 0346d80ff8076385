//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	transferProcesses  = 4
	transferGoroutines = 4
	transferCalls      = 60
)

// transfer is a process that locks accounts two or three at a time, in an order of its own, over and over.
//
//	args  address, how: "list" for one lock on all, "one by one" for one after the other; wait; accounts of each goroutine
//	says  "ready", and when it was told to go and is done, how many calls got all accounts and how many gave up
func transfer(self *testenv.Self) {
	wait, err := time.ParseDuration(self.Args[2])
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	s := connect(env, self.Args[0], latchkey.Wait(wait))
	work := func(ctx context.Context, accounts []string) (n int, err error) {
		for _, a := range accounts {
			if !s.Held(ctx, "account:"+a) {
				return n, fmt.Errorf("runs without the lock of %q", a)
			}
			if n := s.client.Incr(ctx, "inside:"+a).Val(); n != 1 {
				return 0, fmt.Errorf("%d callers hold %q", n, a)
			}
		}
		for _, a := range accounts {
			if err := s.client.Decr(ctx, "inside:"+a).Err(); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	call := latchkey.Func(s.WithLock("account:#{param}"), work)
	if self.Args[1] == "one by one" {
		call = func(ctx context.Context, accounts []string) (int, error) {
			for _, a := range accounts {
				lease, err := s.Acquire(ctx, "account:"+a)
				if err != nil {
					return 0, err
				}
				defer lease.Release(ctx)
				ctx = lease.Context() // one lock inside the other
			}
			return work(ctx, accounts)
		}
	}
	self.Sayf("ready")
	self.Hear()
	var all sync.WaitGroup
	var done, gaveUp atomic.Int64
	for _, list := range self.Args[3:] {
		accounts := strings.Split(list, " ")
		all.Go(func() {
			for range transferCalls {
				switch _, err := call(context.Background(), accounts); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, latchkey.ErrBusy):
					gaveUp.Add(1)
				default:
					self.Failf("%v", err)
				}
			}
		})
	}
	all.Wait()
	env.Close()
	self.Sayf("%d %d", done.Load(), gaveUp.Load())
}

// transferAll has several processes lock overlapping accounts in opposite orders.
func transferAll(t *testing.T, how string, wait time.Duration) (done, gaveUp int) {
	t.Helper()
	srv := testenv.Redis(t)
	orders := []string{"a b c", "c b a", "b c", "c a", "b a", "a c"}
	var children []*testenv.ChildProcess
	for i := range transferProcesses {
		args := []string{srv.Addr(), how, wait.String()}
		for j := range transferGoroutines {
			args = append(args, orders[(i+j)%len(orders)])
		}
		c := testenv.Child(t, "transfer", testenv.Args(args...))
		expect(t, c, "ready")
		children = append(children, c)
	}
	for _, c := range children {
		c.Sayf(t, "go")
	}
	for _, c := range children {
		var d, g int
		if _, err := fmt.Sscan(c.Hear(t), &d, &g); err != nil {
			t.Fatal(err)
		}
		done, gaveUp = done+d, gaveUp+g
	}
	srv.Do(t, "DEL", "inside:a", "inside:b", "inside:c")
	nothingLeft(t, srv)
	t.Logf("%s: %d calls had all accounts, %d gave up", how, done, gaveUp)
	return done, gaveUp
}

func TestListsInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	done, gaveUp := transferAll(t, "list", patience)
	if want := transferProcesses * transferGoroutines * transferCalls; done != want || gaveUp > 0 {
		t.Errorf("%d of %d calls had all their accounts, %d gave up", done, want, gaveUp)
	}
}

func TestLocksInTheCallersOrderDeadlock(t *testing.T) {
	t.Parallel()
	if _, gaveUp := transferAll(t, "one by one", 50*time.Millisecond); gaveUp == 0 {
		t.Error("nobody was ever in each other's way: the harness shows nothing")
	}
}
