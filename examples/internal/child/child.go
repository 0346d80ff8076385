// Package child runs an example's program again as one of its own workers: another process, which is told what to do on its
// standard input and answers on its standard output, line by line.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"
)

// Process is the parent's end of a worker.
type Process struct {
	Name   string
	Lines  <-chan string // what it says; closed when it says no more
	Exited chan struct{} // closed when it is gone

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	err    error       // how it went; read after Exited
	killed atomic.Bool // by us
}

// Start runs this program again with the one argument arg and hands the configuration over. Lines that nobody reads
// are kept, up to 64.
func Start(name, arg string, config any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, arg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines := make(chan string, 64)
	p := &Process{Name: name, Lines: lines, Exited: make(chan struct{}), cmd: cmd, stdin: stdin}
	started := make(chan error, 1)
	go func() {
		// The kernel kills a worker when the thread that started it ends, so this one is kept for as long as it lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		endWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.wait(stdout, lines)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := json.NewEncoder(stdin).Encode(config); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// wait listens to the worker until it says no more, and buries it.
func (p *Process) wait(stdout io.Reader, lines chan<- string) {
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		lines <- scanner.Text()
	}
	close(lines)
	p.err = p.cmd.Wait()
	close(p.Exited)
}

// Alive reports whether the process is still there.
func (p *Process) Alive() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Say tells the worker something. One that is gone does not hear it.
func (p *Process) Say(word string) { _, _ = fmt.Fprintln(p.stdin, word) }

// Kill is kill -9: no deferred function runs, nothing is released, nobody is told.
func (p *Process) Kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.Exited
}

// Stop lets the worker go home, by ending its standard input, and returns an error if it went wrong before.
func (p *Process) Stop() error {
	_ = p.stdin.Close()
	select {
	case <-p.Exited:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	if p.err != nil && !p.killed.Load() {
		return fmt.Errorf("%s: %w", p.Name, p.err)
	}
	return nil
}

// Configured is the worker's beginning: it reads what [Start] handed over and returns the lines that are still to come.
// They end when the parent does, however it does. A Ctrl-C, which reaches every process of the terminal, is the
// parent's business.
func Configured(stdin io.Reader, config any) (*bufio.Scanner, error) {
	signal.Ignore(os.Interrupt)
	lines := bufio.NewScanner(stdin)
	if !lines.Scan() {
		return nil, errors.New("no configuration on standard input")
	}
	return lines, json.Unmarshal(lines.Bytes(), config)
}
