package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// ShopProcess is the sale's end of one shop.
type ShopProcess struct {
	Name string
	URL  string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string   // what the shop says; closed when it says no more
	exited chan struct{} // closed when the process is gone
	err    error         // how it went; read after exited
	killed atomic.Bool   // by us
}

// startShop runs this program again as a shop, and returns when it is open.
func startShop(ctx context.Context, config ShopConfig) (*ShopProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, shopArg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &ShopProcess{
		Name: config.Name, cmd: cmd, stdin: stdin,
		lines: make(chan string, 2), exited: make(chan struct{}),
	}
	go p.wait(stdout)
	if err := p.open(ctx, config); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// wait listens to the shop until it says no more, and buries it.
func (p *ShopProcess) wait(stdout io.Reader) {
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		p.lines <- scanner.Text() // never blocks: an address and one sayFrozen at the most
	}
	close(p.lines)
	p.err = p.cmd.Wait()
	close(p.exited)
}

// open hands over the configuration and waits for the address.
func (p *ShopProcess) open(ctx context.Context, config ShopConfig) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := json.NewEncoder(p.stdin).Encode(config); err != nil {
		return err
	}
	select {
	case url, ok := <-p.lines:
		if !ok {
			return fmt.Errorf("%s did not open", p.Name)
		}
		p.URL = url
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not open: %w", p.Name, ctx.Err())
	}
}

// Alive reports whether the process is still there.
func (p *ShopProcess) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Say tells the shop something. A shop that is gone does not hear it.
func (p *ShopProcess) Say(word string) { _, _ = fmt.Fprintln(p.stdin, word) }

// Kill is kill -9: no deferred function runs, nothing is released, nobody is told.
func (p *ShopProcess) Kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Stop lets the shop go home, and returns an error if it went wrong before.
func (p *ShopProcess) Stop() error {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	if p.err != nil && !p.killed.Load() {
		return fmt.Errorf("%s: %w", p.Name, p.err)
	}
	return nil
}
