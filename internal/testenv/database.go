//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const databaseLimit = 60 * time.Second // to make a data directory or to become ready, on a busy machine

// Database is one PostgreSQL or MariaDB server on 127.0.0.1, in a directory of its own. It writes nothing to disk in
// earnest: a machine that crashes would lose it, a server that is killed does not. Its methods are safe for concurrent use;
// those that take a test end it when they fail, so they are called from the test's own goroutine.
type Database struct {
	kind databaseKind
	name string
	dir  string
	port int

	mu   sync.Mutex
	proc *Process
}

// databaseKind is what differs between the servers.
type databaseKind interface {
	// initialize fills the data directory.
	initialize(dir string) error
	// launch starts the server.
	launch(dir string, port int) (*Process, error)
	// ready asks that very process whether it takes connections.
	ready(dir string, port int, p *Process) error
	// url is what a client connects to.
	url(port int, database string) string
	// taken reports whether the log says that the port is somebody else's.
	taken(log string) bool
}

func openDatabase(t TB, name string, kind databaseKind) *Database {
	t.Helper()
	d, err := startDatabase(name, kind)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s at %s wrote:\n%s", name, d.Addr(), d.Log())
		}
		d.Stop()
	})
	return d
}

func startDatabase(name string, kind databaseKind) (*Database, error) {
	dir, err := os.MkdirTemp("", "latchkey-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("testenv: directory for %s: %w", name, err)
	}
	d := &Database{kind: kind, name: name, dir: dir}
	if err = kind.initialize(dir); err == nil {
		for range portTries {
			d.port = somePort()
			if err = d.launch(); !errors.Is(err, errPortTaken) {
				break
			}
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return d, nil
}

// launch starts the server on d.port and returns once it answers there, or errPortTaken.
func (d *Database) launch() error {
	proc, err := d.kind.launch(d.dir, d.port)
	if err != nil {
		return err
	}
	for end := time.Now().Add(databaseLimit); ; {
		if err = d.kind.ready(d.dir, d.port, proc); err == nil {
			d.proc = proc
			return nil
		}
		if time.Now().After(end) {
			err = fmt.Errorf("testenv: %s at %s is not ready after %v: %w", d.name, d.Addr(), databaseLimit, err)
			break
		}
		select {
		case <-proc.Done():
			err = fmt.Errorf("testenv: %s ended at once: %s", d.name, proc.exit())
		case <-time.After(5 * time.Millisecond):
			continue
		}
		break
	}
	proc.stop()
	if d.kind.taken(proc.Log()) {
		return fmt.Errorf("%w: %d", errPortTaken, d.port)
	}
	return fmt.Errorf("%w\nit wrote:\n%s", err, proc.Log())
}

// Addr is the server's host:port.
func (d *Database) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)) }

// URL is what a Go driver connects to: that of pgx and lib/pq for PostgreSQL, the data source name of go-sql-driver for
// MariaDB. An empty name is the database that every server has.
func (d *Database) URL(database string) string { return d.kind.url(d.port, database) }

// URLAt is URL for a client that reaches the server through something else, a proxy, on another local port.
func (d *Database) URLAt(port int, database string) string { return d.kind.url(port, database) }

func (d *Database) process() *Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proc
}

// Pid is the process id of the running server; Restart changes it.
func (d *Database) Pid() int { return d.process().Pid() }

// Log returns what the server that runs now has written, its last few KiB.
func (d *Database) Log() string { return d.process().Log() }

// Pause stops the server with all its processes: connections stay open and nothing is answered.
func (d *Database) Pause(t TB) {
	t.Helper()
	p := d.process()
	p.Pause(t) // first: it makes no more processes
	d.signalChildren(t, p, true)
}

// Resume lets a paused server go on; it then answers what was sent meanwhile.
func (d *Database) Resume(t TB) {
	t.Helper()
	p := d.process()
	d.signalChildren(t, p, false)
	p.Resume(t)
}

// Kill ends the server with SIGKILL, as a crash would. Restart brings it back with what was committed.
func (d *Database) Kill(t TB) {
	t.Helper()
	d.process().Kill(t)
}

// Restart ends the server, if it still runs, and starts it at the same address with its data.
func (d *Database) Restart(t TB) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proc.stop()
	var err error
	// The last processes of a server that was killed may need a moment to notice, and keep its memory until then.
	for end := time.Now().Add(restartLimit); ; {
		if err = d.launch(); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("testenv: restart %s at %s: %v", d.name, d.Addr(), err)
		}
	}
}

// Stop ends the server for good and removes its directory. A test that was given the server need not call it.
func (d *Database) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proc.stop()
	_ = os.RemoveAll(d.dir) // a left-over in the temporary directory is no reason to fail a test
}

// program finds a server's program where systems put it, in PATH or not; the last match is the newest version.
func program(name string, globs ...string) (string, error) {
	for _, g := range globs {
		if found, _ := filepath.Glob(filepath.Join(g, name)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return found, nil
}
