//go:build unix

package testenv

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared are the servers that the tests of a binary have in common.
var shared struct {
	mu    sync.Mutex
	main  bool // Main runs, so somebody will stop the servers
	srv   *Server
	bases map[string]*Database
}

// Main is a TestMain: it runs a child's function if this process is a [Child], and else the tests, stops the shared
// servers, and fails if goroutines are left that the options do not allow for. It does not return.
func Main(m *testing.M, children Children, leaks ...goleak.Option) {
	RunChildren(children)
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()
	code := m.Run()
	shared.mu.Lock()
	if shared.srv != nil {
		shared.srv.Stop()
	}
	for _, d := range shared.bases {
		d.Stop()
	}
	shared.mu.Unlock()
	if code == 0 {
		if err := goleak.Find(append(leaks, IgnoreGoroutines()...)...); err != nil {
			fmt.Fprintf(os.Stderr, "the tests passed but left goroutines behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreGoroutines has goleak pass over the goroutines of this package: goleak.VerifyNone(t, testenv.IgnoreGoroutines()...).
func IgnoreGoroutines() []goleak.Option {
	const pkg = "github.com/latchkey-go/latchkey/internal/testenv."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "spawn"),
		goleak.IgnoreAnyFunction(pkg + "(*Process).reap"),
		goleak.IgnoreAnyFunction(pkg + "(*ChildProcess).scan"),
	}
}

// SharedRedis returns the one server that all tests of a binary may use at the same time, each with keys of its own. A
// test that counts commands, pauses or restarts takes a server of its own from [Redis]. TestMain must call [Main].
func SharedRedis(t TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		t.Fatalf("testenv: SharedRedis needs a TestMain that calls testenv.Main, which stops the server at the end")
	}
	if shared.srv == nil {
		srv, err := startRedis()
		if err != nil {
			t.Fatalf("%v", err)
		}
		shared.srv = srv
	}
	return shared.srv
}

// SharedPostgres is [Postgres] for all tests of a binary, each with tables of its own. TestMain must call [Main].
func SharedPostgres(t TB) *Database {
	t.Helper()
	return sharedDatabase(t, "postgres", postgres{})
}

// SharedMariaDB is [MariaDB] for all tests of a binary, each with tables of its own. TestMain must call [Main].
func SharedMariaDB(t TB) *Database {
	t.Helper()
	return sharedDatabase(t, "mariadbd", mariadb{})
}

func sharedDatabase(t TB, name string, kind databaseKind) *Database {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		t.Fatalf("testenv: a shared %s needs a TestMain that calls testenv.Main, which stops the server at the end", name)
	}
	if d := shared.bases[name]; d != nil {
		return d
	}
	d, err := startDatabase(name, kind)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if shared.bases == nil {
		shared.bases = make(map[string]*Database)
	}
	shared.bases[name] = d
	return d
}
