//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const noPostgres = `postgres not found: run "make test" once, or install it (Debian: apt-get install postgresql)`

// Postgres starts an empty PostgreSQL server for this test and stops it when the test ends. Its user is postgres, without
// a password.
func Postgres(t TB) *Database {
	t.Helper()
	return openDatabase(t, "postgres", postgres{})
}

type postgres struct{}

// postgresPlaces are where Debian, Red Hat and brew keep the programs of each version.
var postgresPlaces = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"}

// account is who runs the server: it refuses to be root's.
func (postgres) account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("testenv: account %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("testenv: postgres refuses to run as root, and there is no account postgres or nobody")
}

func (p postgres) initialize(dir string) error {
	initdb, err := program("initdb", postgresPlaces...)
	if err != nil {
		return errors.New(noPostgres)
	}
	account, err := p.account()
	if err != nil {
		return err
	}
	if account != nil {
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			return fmt.Errorf("testenv: directory for postgres: %w", err)
		}
	}
	cmd := exec.Command(initdb, "--pgdata", filepath.Join(dir, "data"), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir = dir
	proc, err := startAs("initdb", cmd, account)
	if err != nil {
		return err
	}
	<-proc.Done()
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("testenv: initdb: %s\nit wrote:\n%s", proc.exit(), proc.Log())
	}
	return nil
}

func (p postgres) launch(dir string, port int) (*Process, error) {
	binary, err := program("postgres", postgresPlaces...)
	if err != nil {
		return nil, errors.New(noPostgres)
	}
	account, err := p.account()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port), "-k", dir, "-h", "127.0.0.1"}
	for _, setting := range []string{
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB",
		"autovacuum_naptime=5s", "checkpoint_timeout=30min",
	} {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	proc, err := startAs("postgres", cmd, account)
	if err != nil {
		return nil, err
	}
	proc.term = syscall.SIGINT // SIGTERM would wait for clients to leave
	return proc, nil
}

// ready reads what the server itself says about its state, for pg_ctl: the file names the process, so that no other
// server on the port can be meant.
func (postgres) ready(dir string, _ int, proc *Process) error {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[0]) != strconv.Itoa(proc.Pid()) || strings.TrimSpace(lines[7]) != "ready" {
		return errors.New("it has not said that it is ready")
	}
	return nil
}

func (postgres) url(port int, database string) string {
	if database == "" {
		database = "postgres"
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, database)
}

func (postgres) taken(log string) bool {
	return strings.Contains(log, bindInUse) || strings.Contains(log, "Is another postmaster already running on port")
}
