//go:build unix

package itest

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// monitor reads along what a server is told, in the server's order.
type monitor struct {
	rdb     *redis.Client     // for the marks
	sources map[string]string // what latchkey's scripts end with, by kind

	mu    sync.Mutex
	seen  []told
	kinds map[string]string // of the scripts that the server was told, by the name it knows them under
	news  chan struct{}
	done  chan struct{}
}

// told is one command as the server got it.
type told struct {
	at     time.Time
	script bool // a script said it
	args   []string
}

// What latchkey asks of a server, named as its scripts are; see kind.
const (
	acquires = "acquire"
	lists    = "acquire_many"
	renews   = "renew"
	releases = "release"
	leaves   = "leave"
)

// kind tells which operation on a lock a command is; "" if none. The monitor's mutex is held.
func (m *monitor) kind(c told) string {
	switch name := strings.ToLower(c.args[0]); {
	case c.script:
	case name == "set" && slices.Contains(c.args, "nx"):
		return acquires
	case name == "evalsha":
		return m.kinds[c.args[1]]
	case name == "eval":
		return m.kinds[shaOf(c.args[1])]
	}
	return ""
}

// owner is who asks to acquire.
func (c told) owner() string {
	if strings.EqualFold(c.args[0], "set") {
		return c.args[2]
	}
	keys, _ := strconv.Atoi(c.args[2])
	return c.args[3+keys]
}

func shaOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// learn remembers what a script does that the server was just told. The monitor's mutex is held.
func (m *monitor) learn(source string) {
	for kind, end := range m.sources {
		if strings.HasSuffix(source, end) {
			m.kinds[shaOf(source)] = kind
		}
	}
}

func watch(t *testing.T, srv *testenv.Server) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	m := &monitor{
		rdb:     redis.NewClient(&redis.Options{Addr: srv.Addr()}),
		sources: make(map[string]string), kinds: make(map[string]string),
		news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	for _, kind := range []string{acquires, lists, renews, releases, leaves} {
		source, err := os.ReadFile("../redisstore/lua/" + kind + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		m.sources[kind] = string(source)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() {
		t.Fatalf("MONITOR: %v", errors.Join(err, lines.Err()))
	}
	srv.Do(t, "SCRIPT", "FLUSH") // the server is told all scripts anew, and so are we
	go m.read(lines)
	t.Cleanup(func() {
		_ = conn.Close()
		<-m.done
		_ = m.rdb.Close()
	})
	return m
}

func (m *monitor) read(lines *bufio.Scanner) {
	defer close(m.done)
	for lines.Scan() {
		// +1700000000.123456 [0 127.0.0.1:4711] "get" "key"
		head, rest, isCommand := strings.Cut(strings.TrimPrefix(lines.Text(), "+"), "] ")
		stamp, from, _ := strings.Cut(head, " ")
		secText, microText, _ := strings.Cut(stamp, ".")
		sec, _ := strconv.ParseInt(secText, 10, 64)
		micro, _ := strconv.ParseInt(microText, 10, 64)
		if !isCommand {
			continue
		}
		c := told{at: time.Unix(sec, micro*1000), script: strings.HasSuffix(from, "lua")}
		for rest != "" {
			word, err := strconv.QuotedPrefix(rest)
			if err != nil {
				break
			}
			arg, _ := strconv.Unquote(word)
			c.args = append(c.args, arg)
			rest = strings.TrimPrefix(rest[len(word):], " ")
		}
		if len(c.args) == 0 {
			continue
		}
		m.mu.Lock()
		m.seen = append(m.seen, c)
		if strings.EqualFold(c.args[0], "eval") && len(c.args) > 1 {
			m.learn(c.args[1])
		}
		m.mu.Unlock()
		select {
		case m.news <- struct{}{}:
		default:
		}
	}
}

var marks = struct {
	sync.Mutex
	n int
}{}

// mark returns how much the server has been told so far. One goroutine at a time.
func (m *monitor) mark(t *testing.T) int {
	t.Helper()
	marks.Lock()
	marks.n++
	text := "mark " + strconv.Itoa(marks.n)
	marks.Unlock()
	if err := m.rdb.Echo(context.Background(), text).Err(); err != nil {
		t.Fatal(err)
	}
	late := time.After(patience)
	for from := 0; ; {
		m.mu.Lock()
		for i := from; i < len(m.seen); i++ {
			if a := m.seen[i].args; len(a) == 2 && a[1] == text {
				m.mu.Unlock()
				return i
			}
		}
		from = len(m.seen)
		m.mu.Unlock()
		select {
		case <-m.news:
		case <-late:
			t.Fatalf("MONITOR did not show the mark in %v", patience)
		}
	}
}

// between returns the operations of a kind that the server was told between two marks. A script that the server did not
// know, so that it had to be told, counts once.
func (m *monitor) between(from, to int, kind string) (ops []told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.seen[from:to] {
		if m.kind(c) != kind {
			continue
		}
		if strings.EqualFold(c.args[0], "eval") {
			ops = slices.DeleteFunc(ops, func(o told) bool { return slices.Equal(o.args[2:], c.args[2:]) })
		}
		ops = append(ops, c)
	}
	return ops
}

// said returns the commands of that name between two marks, from scripts too.
func (m *monitor) said(from, to int, name string) (cmds []told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.seen[from:to] {
		if strings.EqualFold(c.args[0], name) {
			cmds = append(cmds, c)
		}
	}
	return cmds
}
