//go:build unix && !linux

package testenv

import "syscall"

// dieWithParent can ask for nothing here: only Linux has a death signal. The same process group lets a Ctrl-C at the
// terminal reach every process.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func awaitStopped(*Process) error { return nil }
