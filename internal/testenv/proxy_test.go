//go:build unix

package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// talker is a client that speaks the protocol of Redis by hand.
type talker struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func talk(t *testing.T, addr string) *talker {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &talker{t, conn, bufio.NewReader(conn)}
}

func (c *talker) send(command string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "%s\r\n", command); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one line; "" if the connection was closed, "silence" if there is none for a while.
func (c *talker) answer() string {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(faultLimit)); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.r.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("neither an answer nor the end of the connection")
	}
	return strings.TrimSpace(line)
}

func (c *talker) ask(command string) string {
	c.t.Helper()
	c.send(command)
	return c.answer()
}

func TestProxyWithoutFaultsIsTransparent(t *testing.T) {
	srv := Redis(t)
	p := NewProxy(t, srv.Addr())
	c := talk(t, p.Addr())
	if got := c.ask("SET k v"); got != "+OK" {
		t.Errorf("answer %q", got)
	}
	big := strings.Repeat("x", 1<<20)
	if got, err := ask(p.Addr(), "", "SET", "big", big); got != "OK" {
		t.Errorf("answer %v, %v", got, err)
	}
	if got, err := ask(p.Addr(), "", "GET", "big"); got != big {
		t.Errorf("a large answer was changed: %v", err)
	}
	n := p.Counts()
	if n.Connections != 3 || n.Requests < 3 || n.Replies < 3 || n.Faults() != 0 {
		t.Errorf("counts %+v", n)
	}
}

func TestProxyDelays(t *testing.T) {
	const d = 50 * time.Millisecond
	for name, delay := range map[string]func(*Proxy){
		"requests": func(p *Proxy) { p.DelayRequests(d, Containing("PING")) },
		"replies":  func(p *Proxy) { p.DelayReplies(d) },
	} {
		t.Run(name, func(t *testing.T) {
			p := NewProxy(t, SharedRedis(t).Addr())
			c := talk(t, p.Addr())
			delay(p)
			begin := time.Now()
			if got := c.ask("PING"); got != "+PONG" || time.Since(begin) < d {
				t.Errorf("answer %q after %v", got, time.Since(begin))
			}
			p.Heal()
			if got := c.ask("PING"); got != "+PONG" || p.Counts().Delayed != 1 {
				t.Errorf("after Heal: %q, counts %+v", got, p.Counts())
			}
		})
	}
}

func TestProxyCutsBeforeAndAfterTheServerHasTheRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		cut  func(*Proxy)
		want []string
	}{
		"requests": {func(p *Proxy) { p.CutRequests(Containing("SET"), Times(1)) }, nil},
		"replies":  {func(p *Proxy) { p.CutReplies(Containing("SET"), Times(1)) }, []string{"k"}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := Redis(t)
			p := NewProxy(t, srv.Addr())
			tt.cut(p)
			c := talk(t, p.Addr())
			if got := c.ask("PING"); got != "+PONG" {
				t.Fatalf("a request that does not match: %q", got)
			}
			if got := c.ask("SET k v"); got != "" {
				t.Errorf("answer %q, want the end of the connection", got)
			}
			if got := srv.Keys(t); !slices.Equal(got, tt.want) {
				t.Errorf("the server has %q, want %q", got, tt.want)
			}
			if got := talk(t, p.Addr()).ask("SET k2 v"); got != "+OK" || p.Counts().Cut != 1 {
				t.Errorf("after the one time: %q, counts %+v", got, p.Counts())
			}
		})
	}
}

func TestProxyCutClosesBothSides(t *testing.T) {
	srv := Redis(t)
	p := NewProxy(t, srv.Addr())
	a, b := talk(t, p.Addr()), talk(t, p.Addr())
	a.ask("PING")
	b.ask("PING")
	if n := p.Cut(); n != 2 {
		t.Errorf("cut %d connections, want 2", n)
	}
	if got := a.answer() + b.answer(); got != "" {
		t.Errorf("still heard %q", got)
	}
	if got := talk(t, p.Addr()).ask("PING"); got != "+PONG" {
		t.Errorf("a new connection: %q", got)
	}
}

func TestProxyRefuses(t *testing.T) {
	p := NewProxy(t, SharedRedis(t).Addr())
	p.Refuse()
	if got := talk(t, p.Addr()).answer(); got != "" {
		t.Errorf("answer %q, want the end of the connection", got)
	}
	p.Heal()
	if got := talk(t, p.Addr()).ask("PING"); got != "+PONG" || p.Counts().Refused != 1 {
		t.Errorf("after Heal: %q, counts %+v", got, p.Counts())
	}
	dead := NewProxy(t, "127.0.0.1:1")
	if got := talk(t, dead.Addr()).answer(); got != "" || dead.Counts().Refused != 1 {
		t.Errorf("without a server: %q, counts %+v", got, dead.Counts())
	}
}

func TestProxySwallowsRequestsAndReplaysThemLate(t *testing.T) {
	srv := Redis(t)
	p := NewProxy(t, srv.Addr())
	p.SwallowRequests(Containing("SET"))
	c := talk(t, p.Addr())
	c.send("SET k v")
	p.AwaitFaults(t, 1)
	if err := c.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := srv.Keys(t); len(got) != 0 || p.Withheld() != 1 {
		t.Fatalf("the server has %q, %d are withheld", got, p.Withheld())
	}
	p.Heal()
	if got := talk(t, p.Addr()).ask("PING"); got != "+PONG" {
		t.Errorf("after Heal: %q", got)
	}
	if got := p.Replay(t); !slices.Equal(got, []string{"+OK\r\n"}) {
		t.Errorf("the server answered %q", got)
	}
	if got := srv.Keys(t); !slices.Equal(got, []string{"k"}) || p.Counts().Replayed != 1 || p.Withheld() != 0 {
		t.Errorf("after Replay the server has %q, counts %+v", got, p.Counts())
	}
	if got := p.Replay(t); len(got) != 0 {
		t.Errorf("a second Replay sent something: %q", got)
	}
}

// What is withheld belongs to a session: a transaction that the server still has open when its client is long gone.
func TestProxyDeliversOnTheSameConnectionAfterTheClientLeft(t *testing.T) {
	srv := Redis(t)
	p := NewProxy(t, srv.Addr())
	c := talk(t, p.Addr())
	c.ask("MULTI")
	c.ask("SET k v")
	p.SwallowRequests(Containing("EXEC"))
	c.send("EXEC")
	p.AwaitFaults(t, 1)
	if err := c.conn.Close(); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	if got := srv.Keys(t); len(got) != 0 {
		t.Fatalf("the server has %q already", got)
	}
	before := p.Counts().Replies
	if n := p.Deliver(t); n != 1 {
		t.Fatalf("delivered %d", n)
	}
	p.Await(t, "the answer to EXEC", func(c Counts) bool { return c.Replies > before })
	if got := srv.Keys(t); !slices.Equal(got, []string{"k"}) {
		t.Errorf("the server has %q", got)
	}
}

func TestProxySwallowsReplies(t *testing.T) {
	srv := Redis(t)
	p := NewProxy(t, srv.Addr())
	c := talk(t, p.Addr())
	p.SwallowReplies(Containing("SET"), Times(1))
	c.send("SET k v")
	p.AwaitFaults(t, 1)
	if got := srv.Keys(t); !slices.Equal(got, []string{"k"}) {
		t.Errorf("the server has %q", got)
	}
	// The stream is out of step now: later answers must not pass for the one that is missing.
	c.send("GET k")
	p.AwaitFaults(t, 2)
	if err := c.conn.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.r.Read(make([]byte, 1)); n != 0 || errors.Is(err, io.EOF) {
		t.Errorf("the client got %d bytes, %v", n, err)
	}
	if got := talk(t, p.Addr()).ask("GET k"); got != "$1" {
		t.Errorf("another connection: %q", got)
	}
}

func TestRedisFaultHelpers(t *testing.T) {
	srv := Redis(t)
	sha := fmt.Sprint(srv.Do(t, "SCRIPT", "LOAD", "return 1"))
	srv.FlushScripts(t)
	if _, err := srv.do("EVALSHA", sha, "0"); err == nil || !strings.HasPrefix(errors.Unwrap(err).Error(), "NOSCRIPT") {
		t.Errorf("after FlushScripts: %v", err)
	}
	c := talk(t, srv.Addr())
	c.send("SUBSCRIBE news")
	if got := c.answer(); got != "*3" {
		t.Fatalf("answer %q", got)
	}
	if n := srv.KillSubscribers(t); n != 1 {
		t.Errorf("killed %d subscribers", n)
	}
	const d = 60 * time.Millisecond
	srv.PauseClients(t, d)
	begin := time.Now()
	srv.Do(t, "PING")
	if took := time.Since(begin); took < d/2 {
		t.Errorf("a paused server answered after %v", took)
	}
}
