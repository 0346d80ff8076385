//go:build unix

package itest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	counterProcesses  = 4
	counterGoroutines = 8
)

// How a process guards the counter.
const (
	locked     = "locked"
	unlocked   = "unlocked"
	earlyLetGo = "let go before the write"
)

// counterFile is a number in a file, and beside it who wrote, one byte each, in order.
type counterFile struct{ number, writers *os.File }

func openCounter(dir string) (counterFile, error) {
	number, err := os.OpenFile(filepath.Join(dir, "number"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return counterFile{}, err
	}
	writers, err := os.OpenFile(filepath.Join(dir, "writers"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return counterFile{number, writers}, err
}

func (c counterFile) read() (uint64, error) {
	var b [8]byte
	_, err := c.number.ReadAt(b[:], 0)
	return binary.BigEndian.Uint64(b[:]), err
}

func (c counterFile) write(n uint64, writer byte) error {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	if _, err := c.number.WriteAt(b[:], 0); err != nil {
		return err
	}
	_, err := c.writers.Write([]byte{writer})
	return err
}

// counter is a process that counts up, with the others, until the number has reached the goal. It says how often it wrote.
func counter(self *testenv.Self) {
	addr, dir, guard, writer := self.Args[0], self.Args[1], self.Args[2], self.Args[3][0]
	goal, err := strconv.ParseUint(self.Args[4], 10, 64)
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	s := connect(env, addr)
	file, err := openCounter(dir)
	if err != nil {
		self.Failf("%v", err)
	}
	var writes atomic.Uint64
	turn := func(letGo func() error) (more bool, err error) {
		n, err := file.read()
		if err != nil || n >= goal {
			return false, err
		}
		if err := letGo(); err != nil {
			return false, err
		}
		writes.Add(1)
		return true, file.write(n+1, writer)
	}
	none := func() error { return nil }
	call := map[string]func(context.Context) (bool, error){
		unlocked: func(context.Context) (bool, error) { return turn(none) },
		locked: latchkey.Func0(s.WithLock("counter", latchkey.WaitForever()), func(context.Context) (bool, error) {
			return turn(none)
		}),
		earlyLetGo: func(ctx context.Context) (bool, error) {
			lease, err := s.Acquire(ctx, "counter", latchkey.WaitForever())
			if err != nil {
				return false, err
			}
			defer lease.Release(ctx)
			return turn(func() error { return lease.Release(ctx) })
		},
	}[guard]

	self.Sayf("ready")
	self.Hear()
	var all sync.WaitGroup
	for range counterGoroutines {
		all.Go(func() {
			for more := true; more; {
				var err error
				if more, err = call(context.Background()); err != nil {
					self.Failf("%v", err)
				}
			}
		})
	}
	all.Wait()
	env.Close()
	self.Sayf("%d", writes.Load())
}

// count has the processes count to the goal. It returns how many writes there were, how many of them were lost, and
// how often one process followed another.
func count(t *testing.T, guard string, goal int) (writes, lost, changes int) {
	t.Helper()
	srv, dir := testenv.Redis(t), t.TempDir()
	file, err := openCounter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.number.Close()
	defer file.writers.Close()
	if _, err := file.number.WriteAt(make([]byte, 8), 0); err != nil {
		t.Fatal(err)
	}
	var children []*testenv.ChildProcess
	for i := range counterProcesses {
		c := testenv.Child(t, "counter", testenv.Args(srv.Addr(), dir, guard, fmt.Sprint(i), fmt.Sprint(goal)))
		c.Hear(t)
		children = append(children, c)
	}
	for _, c := range children {
		c.Sayf(t, "go")
	}
	for _, c := range children {
		n, err := strconv.Atoi(c.Hear(t))
		if err != nil {
			t.Fatal(err)
		}
		writes += n
	}
	number, err := file.read()
	if err != nil {
		t.Fatal(err)
	}
	order, err := os.ReadFile(filepath.Join(dir, "writers"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(order); i++ {
		if order[i] != order[i-1] {
			changes++
		}
	}
	if len(order) != writes {
		t.Fatalf("the processes say they wrote %d times, the list of writers has %d", writes, len(order))
	}
	for i := range counterProcesses {
		t.Logf("process %d wrote %d times", i, bytes.Count(order, []byte(fmt.Sprint(i))))
	}
	t.Logf("%d writes, %d lost, %d times another process than before", writes, writes-int(number), changes)
	return writes, writes - int(number), changes
}

func TestUpdatesOfManyProcessesAreNotLost(t *testing.T) {
	const goal = 24_000
	writes, lost, changes := count(t, locked, goal)
	if writes != goal || lost != 0 {
		t.Errorf("%d writes to count to %d, %d lost", writes, goal, lost)
	}
	if changes < 1000 {
		t.Errorf("the lock went from process to process only %d times: too few to show anything", changes)
	}
}

func TestUpdatesAreLostWithoutTheLock(t *testing.T) {
	for _, guard := range []string{unlocked, earlyLetGo} {
		t.Run(guard, func(t *testing.T) {
			// On a busy machine the processes may happen to run one after the other.
			for range 10 {
				if _, lost, _ := count(t, guard, 2_000); lost > 0 {
					return
				}
			}
			t.Error("no update was lost: the harness can't tell a lock from none")
		})
	}
}
