package testenv

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const childVar = "LATCHKEY_TESTENV_CHILD"

// Children are the functions that can run in a process of their own, by name.
type Children map[string]func(*Self)

// Self is a child as it sees itself: what it was told, and how it answers its parent.
type Self struct {
	Args []string

	in *bufio.Scanner
	mu sync.Mutex // one line at a time on standard output
}

// children is what RunChildren was given: only a binary that lists its children can start them.
var children atomic.Pointer[Children]

// RunChildren runs a child's function and ends the process, if this process is a child; else it returns. [Main] calls it
// for a test binary; a program calls it first thing in main.
func RunChildren(c Children) {
	children.Store(&c)
	name := os.Getenv(childVar)
	if name == "" {
		return
	}
	_ = os.Unsetenv(childVar) // a child may start programs of its own
	f, ok := c[name]
	if !ok {
		fmt.Fprintln(os.Stderr, registered(name))
		os.Exit(2)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	f(&Self{Args: os.Args[1:], in: in})
	os.Exit(0)
}

// registered says what is wrong if there is no such child.
func registered(name string) error {
	c := children.Load()
	if c == nil {
		return fmt.Errorf("testenv: child %q: this binary runs no children; call testenv.Main from TestMain, "+
			"or testenv.RunChildren first thing in main", name)
	}
	if _, ok := (*c)[name]; !ok {
		return fmt.Errorf("testenv: child %q is not one of those given to testenv.Main or testenv.RunChildren: %s",
			name, strings.Join(slices.Sorted(maps.Keys(*c)), ", "))
	}
	return nil
}

// Sayf sends a line to the parent's [ChildProcess.Hear]. Safe for concurrent use.
func (s *Self) Sayf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

// Hear returns the next line that the parent said; false when there will be none.
func (s *Self) Hear() (string, bool) {
	if !s.in.Scan() {
		return "", false
	}
	return s.in.Text(), true
}

// Failf ends the child with exit code 1 and the message on standard error, which the parent's test shows.
func (s *Self) Failf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
