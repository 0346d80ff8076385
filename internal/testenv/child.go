//go:build unix

package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	hearLimit = 2 * time.Minute // a child that says nothing for so long is stuck
	lineRoom  = 1 << 20
)

// ChildProcess is one of [Children] as its parent sees it.
type ChildProcess struct {
	*Process

	stdin *os.File
	lines chan string   // what the child said; closed by scan at the end of its output
	quit  chan struct{} // closed by Cleanup: nobody reads lines any more
}

// ChildOption changes how a child is started.
type ChildOption func(*exec.Cmd)

// Args become [Self.Args].
func Args(args ...string) ChildOption {
	return func(c *exec.Cmd) { c.Args = append(c.Args, args...) }
}

// Env adds to the environment that the child has from its parent.
func Env(name, value string) ChildOption {
	return func(c *exec.Cmd) { c.Env = append(c.Env, name+"="+value) }
}

// Child runs the function of that name in a new process of this same binary and kills it when the test ends. What it
// writes to standard error is shown if the test fails.
func Child(t TB, name string, opts ...ChildOption) *ChildProcess {
	t.Helper()
	if err := registered(name); err != nil {
		t.Fatalf("%v", err)
	}
	c, err := startChild(name, opts...)
	if err != nil {
		t.Fatalf("testenv: child %q: %v", name, err)
	}
	t.Cleanup(func() {
		close(c.quit)
		_ = c.cmd.Process.Kill() // the only failure is that it has ended already
		<-c.done
		_ = c.stdin.Close()
		if log := c.Log(); t.Failed() && log != "" {
			t.Logf("child %q (%s) wrote:\n%s", name, c.exit(), log)
		}
	})
	return c
}

func startChild(name string, opts ...ChildOption) (*ChildProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+name)
	for _, o := range opts {
		o(cmd)
	}
	// Files of our own, not cmd.StdoutPipe: Wait would close that one before the last line has been read.
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	p, err := start(fmt.Sprintf("child %q", name), cmd)
	_ = childIn.Close()
	_ = childOut.Close()
	if err != nil {
		return nil, err
	}
	c := &ChildProcess{Process: p, stdin: stdin, lines: make(chan string), quit: make(chan struct{})}
	go c.scan(stdout)
	return c, nil
}

func (c *ChildProcess) scan(stdout io.ReadCloser) {
	defer close(c.lines)
	defer stdout.Close() //nolint:errcheck // read to its end, or of no interest any more
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, lineRoom)
	for lines.Scan() {
		select {
		case c.lines <- lines.Text():
		case <-c.quit:
			return
		}
	}
}

// Sayf sends a line for the child to [Self.Hear].
func (c *ChildProcess) Sayf(t TB, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(c.stdin, format+"\n", args...); err != nil {
		t.Fatalf("testenv: write to %s: %v", c.name, err)
	}
}

// CloseStdin tells the child that nothing more will be said.
func (c *ChildProcess) CloseStdin() { _ = c.stdin.Close() }

// Lines are what the child says, for use in a select; closed when its output ends.
func (c *ChildProcess) Lines() <-chan string { return c.lines }

// Hear returns the next line that the child says. The test ends if there is none.
func (c *ChildProcess) Hear(t TB) string {
	t.Helper()
	limit := time.After(hearLimit)
	select {
	case line, ok := <-c.lines:
		if ok {
			return line
		}
	case <-limit:
		t.Fatalf("testenv: %s has said nothing for %v; it wrote:\n%s", c.name, hearLimit, c.Log())
	}
	select {
	case <-c.done:
		t.Fatalf("testenv: %s ended (%s) and said nothing more; it wrote:\n%s", c.name, c.exit(), c.Log())
	case <-limit:
		t.Fatalf("testenv: %s runs but can't be heard: it closed its output, or said a line over %d bytes", c.name, lineRoom)
	}
	return ""
}

// Wait returns the child's exit code when it has ended: -1 if a signal ended it.
func (c *ChildProcess) Wait() int {
	<-c.done
	return c.cmd.ProcessState.ExitCode()
}
