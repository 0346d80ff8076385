//go:build unix && !linux

package testenv

import "syscall"

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
