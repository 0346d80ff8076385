package testenv

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// signalChildren stops the processes that a server has made, or lets them go on.
func (d *Database) signalChildren(t TB, p *Process, stop bool) {
	t.Helper()
	sig := syscall.SIGCONT
	if stop {
		sig = syscall.SIGSTOP
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Pid(), p.Pid()))
	if err != nil {
		t.Fatalf("testenv: processes of %s: %v", d.name, err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err == nil {
			err = syscall.Kill(pid, sig)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("testenv: send %v to process %s of %s: %v", sig, field, d.name, err)
		}
	}
}
