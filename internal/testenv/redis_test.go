//go:build unix

package testenv

import (
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRedisIsFreshAndOnLoopback(t *testing.T) {
	a, b := Redis(t), Redis(t)
	if a.Addr() == b.Addr() {
		t.Fatalf("two servers at %s", a.Addr())
	}
	if host, _, err := net.SplitHostPort(a.Addr()); err != nil || host != "127.0.0.1" {
		t.Errorf("address %s, want one on 127.0.0.1", a.Addr())
	}
	a.Do(t, "SET", "k", "v")
	if got := b.Keys(t); len(got) != 0 {
		t.Errorf("a fresh server has %q", got)
	}
	if got := a.Do(t, "CONFIG", "GET", "save"); !slices.Equal(got.([]any), []any{"save", ""}) {
		t.Errorf("save is %q, want none", got)
	}
}

func TestRedisManyAtOnce(t *testing.T) {
	servers := make([]*Server, 8)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			srv, err := startRedis()
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = srv
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, srv := range servers {
		if srv != nil {
			seen[srv.Addr()] = true
			srv.Stop()
		}
	}
	if len(seen) != len(servers) {
		t.Errorf("%d addresses for %d servers", len(seen), len(servers))
	}
}

func TestRedisTakesAnotherPortWhenOneIsTaken(t *testing.T) {
	other := Redis(t) // answers PING too: the answer alone does not make it ours
	ports := []int{other.port, other.port, somePort(), somePort(), somePort(), somePort()}
	srv := Redis(t, func(c *redisConf) {
		c.pickPort = func() int {
			p := ports[0]
			ports = ports[1:]
			return p
		}
	})
	if srv.Addr() == other.Addr() || srv.Pid() == other.Pid() {
		t.Errorf("got the other server, at %s", other.Addr())
	}
}

func TestRedisEndsWithTest(t *testing.T) {
	var srv *Server
	t.Run("inner", func(t *testing.T) {
		srv = Redis(t)
		srv.Pause(t) // also when it stands still
	})
	gone(t, srv)
	if _, err := os.Stat(srv.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is still there: %v", err)
	}
}

func TestRedisKilled(t *testing.T) {
	srv := Redis(t)
	srv.Kill(t)
	gone(t, srv)
}

func gone(t *testing.T, srv *Server) {
	t.Helper()
	if alive(srv.Pid()) {
		t.Errorf("pid %d is alive", srv.Pid())
	}
	if conn, err := net.Dial("tcp", srv.Addr()); err == nil {
		_ = conn.Close()
		t.Errorf("something listens at %s", srv.Addr())
	}
}

func TestRedisPausedAnswersOnlyWhenResumed(t *testing.T) {
	srv := Redis(t)
	srv.Pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := srv.do("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	srv.Resume(t)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestRedisRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []RedisOption
		kill bool
		keep bool
		want []string
	}{
		{"keep", nil, false, KeepData, []string{"k"}},
		{"lose", nil, false, LoseData, nil},
		{"killed, lose", nil, true, LoseData, nil},
		{"persistent, killed, keep", []RedisOption{Persist()}, true, KeepData, []string{"k"}},
		{"persistent, killed, lose", []RedisOption{Persist()}, true, LoseData, nil},
		{"persistent, keep", []RedisOption{Persist()}, false, KeepData, []string{"k"}},
		{"with password, keep", []RedisOption{Password("s3cret")}, false, KeepData, []string{"k"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := Redis(t, tt.opts...)
			addr, pid := srv.Addr(), srv.Pid()
			srv.Do(t, "SET", "k", "v")
			if tt.kill {
				srv.Kill(t)
			}
			srv.Restart(t, tt.keep)
			if srv.Addr() != addr || srv.Pid() == pid {
				t.Errorf("pid %d at %s became pid %d at %s, want another at the same address", pid, addr, srv.Pid(), srv.Addr())
			}
			if got := srv.Keys(t); !slices.Equal(got, tt.want) {
				t.Errorf("keys %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRedisSnapshotOfOneRestartIsNotFoundByTheNext(t *testing.T) {
	srv := Redis(t)
	srv.Do(t, "SET", "k", "v")
	srv.Restart(t, KeepData)
	srv.Kill(t)
	message := fails(t, func(t TB) { srv.Restart(t, KeepData) })
	if !strings.Contains(message, "testenv.Persist()") {
		t.Errorf("message %q does not name the fix", message)
	}
	srv.Restart(t, LoseData)
	if got := srv.Keys(t); len(got) != 0 {
		t.Errorf("keys %q, want none", got)
	}
}

func TestRedisCommands(t *testing.T) {
	srv := Redis(t)
	srv.Do(t, "SET", "before", "v")
	srv.ResetStats(t)
	if got := srv.Commands(t); len(got) != 0 {
		t.Errorf("after ResetStats: %v", got)
	}
	srv.Do(t, "SET", "a", "v")
	srv.Do(t, "SET", "b", "v")
	srv.Do(t, "EVAL", "return redis.call('GET', KEYS[1])", "1", "a")
	srv.Keys(t)
	want := map[string]int64{"set": 2, "eval": 1, "get": 1}
	if got := srv.Commands(t); !maps.Equal(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
	if got := srv.Keys(t); !slices.Equal(got, []string{"a", "b", "before"}) {
		t.Errorf("keys %q", got)
	}
	if got := srv.Info(t, "keyspace")["db0"]; !strings.HasPrefix(got, "keys=3,") {
		t.Errorf("db0 is %q", got)
	}
}

func TestRedisOptions(t *testing.T) {
	srv := Redis(t, Config("maxmemory", "12345678"), Password("s3cret"), RunUnder("nice", "-n", "0"))
	if got := srv.Do(t, "CONFIG", "GET", "maxmemory").([]any)[1]; got != "12345678" {
		t.Errorf("maxmemory %v", got)
	}
	if _, err := ask(srv.Addr(), "", "PING"); err == nil || !strings.HasPrefix(errors.Unwrap(err).Error(), "NOAUTH") {
		t.Errorf("without the password: %v, want NOAUTH", err)
	}
}

func TestRedisMistakesNameTheCause(t *testing.T) {
	if got := fails(t, func(t TB) { Redis(t, Config("no-such-directive", "1")) }); !strings.Contains(got, "no-such-directive") {
		t.Errorf("message %q does not name the directive", got)
	}
	srv := SharedRedis(t)
	if got := fails(t, func(t TB) { srv.Do(t, "GET") }); !strings.Contains(got, "wrong number of arguments") {
		t.Errorf("message %q does not carry the server's answer", got)
	}
}

func TestRedisMissing(t *testing.T) {
	c := Child(t, "without path", Env("PATH", t.TempDir()), Env(redisVar, ""))
	if code := c.Wait(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	const want = `redis-server not found: run "make test" once, or install it (Debian: apt-get install redis-server)`
	if got := c.Log(); got != want {
		t.Errorf("it wrote:\n%s\nwant:\n%s", got, want)
	}
}

func TestSharedRedisIsOne(t *testing.T) {
	if a, b := SharedRedis(t), SharedRedis(t); a != b {
		t.Error("two shared servers")
	}
}
