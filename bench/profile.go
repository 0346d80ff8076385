package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// profileDir is where workers leave CPU profiles; "" if nobody wants them. It is the -profile flag.
var profileDir string

// profileVar tells a worker.
const profileVar = "LATCHKEY_BENCH_PROFILE"

// profiled makes workers profile themselves.
func profiled(opts []testenv.ChildOption) []testenv.ChildOption {
	if profileDir == "" {
		return opts
	}
	return append(opts, testenv.Env(profileVar, profileDir))
}

// profile runs a turn and adds it to the worker's profiles, a file for each turn: go tool pprof merges them.
func (j job) profile(n int, act func() (any, error)) (any, error) {
	dir := os.Getenv(profileVar)
	if dir == "" {
		return act()
	}
	name := strings.NewReplacer(" ", "_", ",", "", "(", "_", ")", "").Replace(j.Load + "_" + j.Contender)
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s_%d_%d.prof", name, os.Getpid(), n)))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	result, err := act()
	pprof.StopCPUProfile()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return result, err
}
