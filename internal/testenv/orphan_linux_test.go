package testenv

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alive tells whether a process runs. One that has ended and that nobody has waited for yet does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestServersAndChildrenDieWithKilledTestBinary(t *testing.T) {
	parent := Child(t, "owner", Env("TMPDIR", t.TempDir())) // a killed binary can remove no directory
	addr := parent.Hear(t)
	server, child := number(t, parent.Hear(t)), number(t, parent.Hear(t))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !alive(server) || !alive(child) {
		t.Fatal("the server or the child of the child does not run")
	}

	parent.Kill(t)

	// The server's end closes the connection: an event to wait for, since it is not a child of this process.
	if err := conn.SetReadDeadline(time.Now().Add(readyLimit)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server outlived the binary that started it")
	}
	for end := time.Now().Add(readyLimit); alive(server) || alive(child); {
		if time.Now().After(end) {
			t.Fatalf("still alive: server %v, child %v", alive(server), alive(child))
		}
		time.Sleep(time.Millisecond)
	}
}

func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	// A goroutine that returns while locked takes its thread along, and the death signal hangs on a thread. Only the
	// main thread lives on: while it is locked here, another one has to do it.
	var onDyingThread func(f func())
	onDyingThread = func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() {
				onDyingThread(f)
				runtime.UnlockOSThread()
				return
			}
			f()
		}()
		<-done
	}
	var srv *Server
	onDyingThread(func() { srv = Redis(t) })

	// The control forks on the dying thread itself, and is the event that says: the thread is dead.
	control := exec.Command("sleep", "600")
	control.SysProcAttr = dieWithParent()
	onDyingThread(func() {
		if err := control.Start(); err != nil {
			t.Error(err)
		}
	})
	if err := control.Wait(); err == nil {
		t.Fatal("the control lived on: this test shows nothing")
	}
	srv.Do(t, "PING")
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
