package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinSelf binds this process to the core that its parent chose, if it did, and starts the program again: the runtime
// looks at the cores it may use only when it starts.
func pinSelf() {
	core := os.Getenv(pinVar)
	if core == "" {
		return
	}
	_ = os.Unsetenv(pinVar)
	n, err := strconv.Atoi(core)
	if err == nil {
		runtime.LockOSThread() // the thread that calls exec is the one that stays, with the cores it has
		var set unix.CPUSet
		set.Set(n)
		err = unix.SchedSetaffinity(0, &set)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "bench: pin to core %s: %v\n", core, err)
	os.Exit(2)
}

// cores returns the cores that this process may use.
func cores() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	var all []int
	for n := range 64 * len(set) { // IsSet is false beyond the end
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all
}

// pinProcess binds every thread of a process to a core.
func pinProcess(pid, core int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(core)
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil {
			return fmt.Errorf("pin thread %d to core %d: %w", tid, core, err)
		}
	}
	return nil
}
