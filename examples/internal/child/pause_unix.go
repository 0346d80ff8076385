//go:build unix

package child

import "syscall"

// Pause is kill -STOP: the process stands still, all of it, and does not notice until Resume.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a process that stands still go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
