//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	redisVar   = "LATCHKEY_REDIS_SERVER" // names another server binary: a Valkey, a newer Redis
	noRedis    = `redis-server not found: run "make test" once, or install it (Debian: apt-get install redis-server)`
	readyLimit = 20 * time.Second
	portTries  = 20
	bindInUse  = "Address already in use" // what the server writes before it exits
)

// Whether a restarted server still has its keys.
const (
	KeepData = true
	LoseData = false
)

// Server is one redis-server on 127.0.0.1, in a directory of its own. Its methods are safe for concurrent use; those that
// take a test end it when they fail, so they are called from the test's own goroutine.
type Server struct {
	conf redisConf
	dir  string
	port int

	mu   sync.Mutex
	proc *Process
}

type redisConf struct {
	directives [][2]string
	password   string
	persist    bool
	under      []string
	pickPort   func() int
	sentinel   string // a sentinel's configuration: it is no server for keys
}

// RedisOption changes how a server is started.
type RedisOption func(*redisConf)

// Config sets a directive of redis.conf: Config("maxmemory", "10mb").
func Config(directive, value string) RedisOption {
	return func(c *redisConf) { c.directives = append(c.directives, [2]string{directive, value}) }
}

// Password makes clients say AUTH.
func Password(p string) RedisOption {
	return func(c *redisConf) { c.password = p }
}

// Persist has every write on disk before it is answered, so that a killed server comes back with its keys.
func Persist() RedisOption {
	return func(c *redisConf) { c.persist = true }
}

// RunUnder starts the server through another command that becomes it: RunUnder("taskset", "-c", "1").
func RunUnder(argv ...string) RedisOption {
	return func(c *redisConf) { c.under = argv }
}

// Redis starts an empty server for this test and stops it when the test ends.
func Redis(t TB, opts ...RedisOption) *Server {
	t.Helper()
	s, err := startRedis(opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("redis-server at %s wrote:\n%s", s.Addr(), s.Log())
		}
		s.Stop()
	})
	return s
}

func startRedis(opts ...RedisOption) (*Server, error) {
	conf := redisConf{pickPort: somePort}
	for _, o := range opts {
		o(&conf)
	}
	dir, err := os.MkdirTemp("", "latchkey-redis-")
	if err != nil {
		return nil, fmt.Errorf("testenv: directory for redis-server: %w", err)
	}
	s := &Server{conf: conf, dir: dir}
	for range portTries {
		s.port = conf.pickPort()
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// somePort picks below the range that systems hand to outgoing connections: a client that keeps dialling a server that is
// down would in time be given the server's own port.
func somePort() int { return 12000 + rand.IntN(20000) }

var errPortTaken = errors.New("testenv: port taken")

// launch starts the server on s.port and returns once it answers there, or errPortTaken.
func (s *Server) launch() error {
	binary, err := redisBinary()
	if err != nil {
		return err
	}
	if s.conf.sentinel != "" { // it keeps what it learns there
		if err := os.WriteFile(s.sentinelFile(), []byte(s.conf.sentinel), 0o600); err != nil {
			return fmt.Errorf("testenv: configuration of a sentinel: %w", err)
		}
	}
	argv := append(append([]string{}, s.conf.under...), binary)
	argv = append(argv, s.args()...)
	proc, err := start("redis-server", exec.Command(argv[0], argv[1:]...))
	if err != nil {
		return err
	}
	if err := s.awaitReady(proc); err != nil {
		proc.stop()
		if strings.Contains(proc.Log(), bindInUse) {
			return fmt.Errorf("%w: %d", errPortTaken, s.port)
		}
		return fmt.Errorf("%w\nit wrote:\n%s", err, proc.Log())
	}
	if !s.conf.persist {
		// A snapshot serves one restart; a later kill must find nothing of it.
		_ = os.Remove(filepath.Join(s.dir, "dump.rdb"))
	}
	s.proc = proc
	return nil
}

func redisBinary() (string, error) {
	if path := os.Getenv(redisVar); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("testenv: %s=%s: %w", redisVar, path, err)
		}
		return found, nil
	}
	found, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New(noRedis)
	}
	return found, nil
}

func (s *Server) sentinelFile() string { return filepath.Join(s.dir, "sentinel.conf") }

func (s *Server) args() []string {
	if s.conf.sentinel != "" {
		return []string{s.sentinelFile(), "--sentinel", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}
	}
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no", "--save", "",
	}
	if s.conf.persist {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if s.conf.password != "" {
		args = append(args, "--requirepass", s.conf.password)
	}
	for _, d := range s.conf.directives {
		args = append(args, "--"+d[0], d[1])
	}
	return args
}

// awaitReady asks until proc itself, and not some other server at the address, answers PING.
func (s *Server) awaitReady(proc *Process) error {
	var err error
	for end := time.Now().Add(readyLimit); time.Now().Before(end); {
		var pid int
		if pid, err = s.answeringPid(); err == nil && pid == proc.Pid() {
			return nil
		}
		select {
		case <-proc.Done():
			return fmt.Errorf("testenv: redis-server ended at once: %s", proc.exit())
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("testenv: redis-server at %s is not ready after %v: %w", s.Addr(), readyLimit, err)
}

// answeringPid returns the process id of the server at s.Addr once it takes commands.
func (s *Server) answeringPid() (int, error) {
	if _, err := s.do("PING"); err != nil {
		return 0, err
	}
	info, err := s.info("server")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(info["process_id"])
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }
