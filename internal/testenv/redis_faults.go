//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const restartLimit = 10 * time.Second // for somebody else to leave the port

func (s *Server) process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Pid is the process id of the running server; Restart changes it.
func (s *Server) Pid() int { return s.process().Pid() }

// Done is closed when the server that runs now has ended.
func (s *Server) Done() <-chan struct{} { return s.process().Done() }

// Log returns what the server that runs now has written, its last few KiB.
func (s *Server) Log() string { return s.process().Log() }

// Pause stops the server with SIGSTOP: connections stay open and nothing is answered.
func (s *Server) Pause(t TB) {
	t.Helper()
	s.process().Pause(t)
}

// Resume lets a paused server go on; it then answers what was sent meanwhile.
func (s *Server) Resume(t TB) {
	t.Helper()
	s.process().Resume(t)
}

// Kill ends the server with SIGKILL and returns when it is gone and its port is closed. Restart brings it back.
func (s *Server) Kill(t TB) {
	t.Helper()
	s.process().Kill(t)
}

// Stop ends the server for good and removes its directory. A test that got its server from Redis need not call it.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.stop()
	_ = os.RemoveAll(s.dir) // a left-over in the temporary directory is no reason to fail a test
}

// Restart ends the server, if it still runs, and starts it at the same address, with its keys (KeepData) or without
// (LoseData). A server that was killed has its keys only if it was started with Persist.
func (s *Server) Restart(t TB, keepData bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.restart(keepData); err != nil {
		t.Fatalf("testenv: restart redis-server at %s: %v", s.Addr(), err)
	}
}

func (s *Server) restart(keepData bool) error {
	if keepData && !s.conf.persist {
		if !s.proc.running() {
			return errors.New("its keys were lost when it was killed; start it with testenv.Persist() to keep them")
		}
		if _, err := s.do("SAVE"); err != nil {
			return fmt.Errorf("save its keys (a paused server must be resumed first): %w", err)
		}
	}
	s.proc.stop()
	if !keepData {
		if err := s.wipe(); err != nil {
			return err
		}
	}
	for end := time.Now().Add(restartLimit); ; {
		err := s.launch()
		if !errors.Is(err, errPortTaken) || time.Now().After(end) {
			return err
		}
	}
}

func (s *Server) wipe() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return nil
}

// FlushScripts makes the server forget every script it was told.
func (s *Server) FlushScripts(t TB) {
	t.Helper()
	s.Do(t, "SCRIPT", "FLUSH")
}

// PauseClients has the server answer nobody for d, this package included, while the time of its keys runs on. It then
// answers what was asked meanwhile.
func (s *Server) PauseClients(t TB, d time.Duration) {
	t.Helper()
	s.Do(t, "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
}

// KillSubscribers closes the connections of all who have subscribed and returns how many there were.
func (s *Server) KillSubscribers(t TB) int64 {
	t.Helper()
	n, _ := s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").(int64)
	return n
}
