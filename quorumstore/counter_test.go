package quorumstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

type ctx = context.Context

const (
	counterProcesses  = 2
	counterGoroutines = 4
)

// counter is a process that counts up in a file, with the others, until the number has reached the goal. It says how
// often it wrote.
//
//	args  file, goal, "locked" or "unlocked", name, addresses
func counter(self *testenv.Self) {
	file, guard, name := self.Args[0], self.Args[2], self.Args[3]
	goal, err := strconv.Atoi(self.Args[1])
	if err != nil {
		self.Failf("%v", err)
	}
	env := testenv.Program()
	locks := lock(env, open(env, self.Args[4:]))
	var mu sync.Mutex
	writes := 0
	turn := func(context.Context) (more bool, err error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		n := 0
		if lines := strings.Fields(string(text)); len(lines) > 0 {
			last, _, _ := strings.Cut(lines[len(lines)-1], ":")
			n, _ = strconv.Atoi(last)
		}
		if n >= goal {
			return false, nil
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return false, err
		}
		mu.Lock()
		writes++
		mu.Unlock()
		if _, err := fmt.Fprintf(f, "%d:%s\n", n+1, name); err != nil {
			return false, err
		}
		return true, f.Close()
	}
	call := turn
	if guard == "locked" {
		call = latchkey.Func0(locks.WithLock("counter", latchkey.WaitForever()), turn)
	}
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
	self.Sayf("%d", writes)
}

// count has the processes count to the goal. It returns how many writes were lost, and how often one process followed
// another.
func count(t *testing.T, servers []*testenv.Server, guard string, goal int, during func(written func() int)) (lost, changes int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "numbers")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var children []*testenv.ChildProcess
	for i := range counterProcesses {
		args := append([]string{file, strconv.Itoa(goal), guard, fmt.Sprint("p", i)}, addrs(servers)...)
		c := testenv.Child(t, "counter", testenv.Args(args...))
		c.Hear(t)
		children = append(children, c)
	}
	for _, c := range children {
		c.Sayf(t, "go")
	}
	during(func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	})
	writes := 0
	for _, c := range children {
		n, err := strconv.Atoi(c.Hear(t))
		if err != nil {
			t.Fatal(err)
		}
		writes += n
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	seen, before := make(map[string]bool), ""
	for _, line := range lines {
		n, who, _ := strings.Cut(line, ":")
		seen[n] = true
		if who != before {
			changes++
		}
		before = who
	}
	t.Logf("%d writes, %d numbers, %d times another process than before", writes, len(seen), changes)
	return writes - len(seen), changes
}

func TestUpdatesOfTwoProcessesAreNotLost(t *testing.T) {
	const goal = 2000
	t.Run("five good masters", func(t *testing.T) {
		if lost, changes := count(t, masters(t, 5), "locked", goal, func(func() int) {}); lost != 0 || changes < 20 {
			t.Errorf("%d lost; the lock went from process to process %d times", lost, changes)
		}
	})
	t.Run("two masters die meanwhile", func(t *testing.T) {
		servers := masters(t, 5)
		kill := func(written func() int) {
			for i := range 2 {
				eventually(t, "some counting is done", func() bool { return written() > (i+1)*goal/4 })
				servers[i].Kill(t)
			}
			if n := written(); n >= goal {
				t.Fatal("void: they had counted to the end when the masters died")
			}
		}
		if lost, changes := count(t, servers, "locked", goal, kill); lost != 0 || changes < 20 {
			t.Errorf("%d lost; the lock went from process to process %d times", lost, changes)
		}
	})
	t.Run("control: no lock", func(t *testing.T) {
		if lost, _ := count(t, masters(t, 3), "unlocked", goal/5, func(func() int) {}); lost == 0 {
			t.Error("no update was lost: the harness can't tell a lock from none")
		}
	})
}
