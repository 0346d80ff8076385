package child

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the worker when its parent goes away, also while it stands still and hears nothing.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
