//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"
)

// allArg makes the test binary the whole program, run as main runs it.
const allArg = "all"

func runAsProcess(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

// startRun starts the program, waits until it is among the faults, and returns it with its standard error, which ends when
// the last process that can write to it is gone.
func startRun(t *testing.T, temp string) (*exec.Cmd, io.Reader) {
	t.Helper()
	program := exec.Command(os.Args[0], allArg, "-calls", "1", "-faults", "1000000")
	program.Env = append(os.Environ(), "TMPDIR="+temp)
	stderr, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stderr.Close() })
	program.Stderr = write
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	write.Close()
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), string(Around)) { // the last round without faults
			<-time.After(4 * shortLease) // somewhere among them, in a stop more likely than not
			return program, stderr
		}
	}
	t.Fatal("it did not come to the faults")
	return nil, nil
}

// goneWithin fails the test unless all of the program's processes are gone in time.
func goneWithin(t *testing.T, limit time.Duration, stderr io.Reader) {
	t.Helper()
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(stderr)
		said <- string(all)
	}()
	select {
	case text := <-said:
		t.Logf("said at the end:\n%s", text)
	case <-time.After(limit):
		t.Fatalf("processes are left after %v", limit)
	}
}

func TestTellersDoNotOutliveAKilledRun(t *testing.T) {
	program, stderr := startRun(t, t.TempDir())
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	goneWithin(t, 10*time.Second, stderr)
}

func TestInterruptLeavesNothingBehind(t *testing.T) {
	temp := t.TempDir()
	program, stderr := startRun(t, temp)
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	goneWithin(t, 20*time.Second, stderr)
	if err := program.Wait(); err == nil || program.ProcessState.ExitCode() != 1 {
		t.Errorf("an interrupted run ends with %v, want exit status 1", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
