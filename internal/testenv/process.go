//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopGrace = 3 * time.Second // from SIGTERM to SIGKILL
	logTail   = 4 << 10         // how much of a process's output goes into an error message
)

// Process is one operating-system process that ends no later than this one.
type Process struct {
	name string
	cmd  *exec.Cmd
	out  *os.File       // what the process wrote; the file has no name any more
	done chan struct{}  // closed by reap once the process is gone
	term syscall.Signal // what asks the process to end
}

type spawnRequest struct {
	cmd *exec.Cmd
	err chan<- error
}

// spawner starts every process of this package. Linux sends the death signal when the *thread* that forked ends, and Go
// ends a thread whose goroutine returns while locked to it; so the forking is left to one thread that never ends.
var spawner = sync.OnceValue(func() chan<- spawnRequest {
	requests := make(chan spawnRequest)
	go spawn(requests)
	return requests
})

func spawn(requests <-chan spawnRequest) {
	runtime.LockOSThread()
	for r := range requests {
		r.err <- r.cmd.Start()
	}
}

// start runs cmd. What it writes to standard error, and to standard output unless the caller set that, is kept for Log.
func start(name string, cmd *exec.Cmd) (*Process, error) { return startAs(name, cmd, nil) }

// startAs is start under another account; nil is this process's own.
func startAs(name string, cmd *exec.Cmd, account *syscall.Credential) (*Process, error) {
	out, err := nameless()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = out
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = dieWithParent()
	cmd.SysProcAttr.Credential = account
	started := make(chan error, 1)
	spawner() <- spawnRequest{cmd, started}
	if err := <-started; err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("testenv: start %s: %w", name, err)
	}
	p := &Process{name: name, cmd: cmd, out: out, done: make(chan struct{}), term: syscall.SIGTERM}
	go p.reap()
	return p, nil
}

// nameless returns a file that the system removes when nobody has it open any more.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "latchkey-testenv-")
	if err != nil {
		return nil, fmt.Errorf("testenv: file for a process's output: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("testenv: file for a process's output: %w", err)
	}
	return f, nil
}

func (p *Process) reap() {
	_ = p.cmd.Wait() // an exit code other than 0 is for the caller to judge: exit
	close(p.done)
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended and left nothing behind.
func (p *Process) Done() <-chan struct{} { return p.done }

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exit tells how the process ended. Only for an ended process.
func (p *Process) exit() string { return p.cmd.ProcessState.String() }

// Log returns what the process has written so far, its last few KiB.
func (p *Process) Log() string {
	size, err := p.out.Seek(0, io.SeekEnd)
	if err != nil {
		return "(its output can't be read: " + err.Error() + ")"
	}
	text := make([]byte, min(size, logTail))
	n, err := p.out.ReadAt(text, size-int64(len(text)))
	if err != nil && !errors.Is(err, io.EOF) {
		return "(its output can't be read: " + err.Error() + ")"
	}
	return strings.TrimSpace(string(text[:n]))
}

// Pause stops the process with SIGSTOP and returns when all its threads stand still.
func (p *Process) Pause(t TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	if err := awaitStopped(p); err != nil {
		t.Fatalf("testenv: pause %s: %v", p.name, err)
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume(t TB) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

// Kill ends the process with SIGKILL, paused or not, and returns when it is gone.
func (p *Process) Kill(t TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.done
}

func (p *Process) signal(t TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("testenv: send %v to %s (pid %d): %v", s, p.name, p.Pid(), err)
	}
}

// stop asks a process to end, paused or not, and makes it if it has not within the grace. It is fine to stop it twice.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(p.term) // the only failure is that it has ended already
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return
	case <-time.After(stopGrace):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
