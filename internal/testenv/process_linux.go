package testenv

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

const pauseLimit = 10 * time.Second

// dieWithParent has the kernel kill the process when this one ends, however it ends. A process group of its own keeps a
// Ctrl-C at the terminal for this process alone, which then takes the others down in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// The arguments of waitid(2) that package syscall leaves out.
const (
	pPID     = 1
	wSTOPPED = 2
)

// awaitStopped returns once the kernel reports that the whole process has stopped: SIGSTOP has been sent before that,
// but its threads may still run for a moment.
func awaitStopped(p *Process) error {
	for end := time.Now().Add(pauseLimit); time.Now().Before(end); {
		var info [128]byte // siginfo_t; a zero si_signo at its start says: not yet
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(p.Pid()),
			uintptr(unsafe.Pointer(&info)), wSTOPPED|syscall.WNOHANG, 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("waitid: %w", errno)
		case *(*int32)(unsafe.Pointer(&info)) != 0:
			return nil
		}
		select {
		case <-p.done:
			return errors.New("it has ended: " + p.exit())
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Errorf("it still runs %v after SIGSTOP", pauseLimit)
}
