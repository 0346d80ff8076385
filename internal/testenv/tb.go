package testenv

import (
	"fmt"
	"os"
	"sync"
)

// TB is the part of [testing.TB] that this package uses. A *testing.T, a *testing.B and a [Prog] have it.
type TB interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Failed() bool
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Prog stands in for a test in a program that is none. A failure ends the program with exit code 1.
type Prog struct {
	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

// Program returns a Prog. The caller closes it at the end of main:
//
//	env := testenv.Program()
//	defer env.Close()
//	srv := testenv.Redis(env)
func Program() *Prog { return &Prog{} }

// Close runs what was given to Cleanup, last in first out.
func (p *Prog) Close() {
	for {
		p.mu.Lock()
		n := len(p.cleanups)
		if n == 0 {
			p.mu.Unlock()
			return
		}
		f := p.cleanups[n-1]
		p.cleanups = p.cleanups[:n-1]
		p.mu.Unlock()
		f()
	}
}

// Helper does nothing.
func (p *Prog) Helper() {}

// Cleanup keeps f for Close.
func (p *Prog) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// Errorf writes a line to standard error and marks the program as failed.
func (p *Prog) Errorf(format string, args ...any) {
	p.mu.Lock()
	p.failed = true
	p.mu.Unlock()
	p.Logf(format, args...)
}

// Failed reports whether Errorf or Fatalf was called.
func (p *Prog) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Fatalf is Errorf, then Close, then the end of the program.
func (p *Prog) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	p.Close()
	os.Exit(1)
}

// Logf writes a line to standard error.
func (p *Prog) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

var _ TB = (*Prog)(nil)
