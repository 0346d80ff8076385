package testenv

import (
	"net"
	"sync"
	"time"
)

const (
	proxyRoom  = 64 << 10         // the largest piece of a stream that is one request or reply
	dialLimit  = 5 * time.Second  // for the proxy to reach its server
	faultLimit = 30 * time.Second // for a fault that a test waits for
)

// Proxy stands between clients and one server and does to their traffic what a test tells it to. It knows no protocol: what
// a client writes at once, a command or a pipeline, is a request, what the server writes is a reply. So it serves
// for any server whose protocol takes turns.
//
// Faults are switched while connections live. All methods are safe for concurrent use, but those that take a test end it
// when they fail, and are called from the test's own goroutine.
type Proxy struct {
	target string
	ln     net.Listener
	quit   chan struct{}
	all    sync.WaitGroup

	mu       sync.Mutex
	faults   []*fault
	refuse   bool
	links    map[*link]struct{}
	withheld []withheld
	counts   Counts
	news     chan struct{} // closed, and made anew, when counts change
}

// Counts are what a proxy has seen and done since it was started.
type Counts struct {
	Connections int // accepted, including those that were refused afterwards
	Refused     int // closed at once because of Refuse, or because the server could not be reached
	Requests    int // pieces that came from clients
	Replies     int // pieces that came from the server

	Delayed           int // pieces held up
	Cut               int // connections closed by a fault or by Cut
	SwallowedRequests int // requests that the server did not get
	SwallowedReplies  int // replies that the client did not get
	Replayed          int // swallowed requests that the server got after all
}

// Faults is how often the proxy did something to the traffic that was not asked of it by Replay.
func (c Counts) Faults() int {
	return c.Refused + c.Delayed + c.Cut + c.SwallowedRequests + c.SwallowedReplies
}

// NewProxy starts a proxy for the server at target. It ends, with every connection through it, when the test does.
func NewProxy(t TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testenv: proxy for %s: %v", target, err)
	}
	p := &Proxy{
		target: target, ln: ln, quit: make(chan struct{}),
		links: make(map[*link]struct{}), news: make(chan struct{}),
	}
	p.all.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect to: host:port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Counts returns what the proxy has done so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Await returns once the counts are as a test waits for.
func (p *Proxy) Await(t TB, what string, reached func(Counts) bool) Counts {
	t.Helper()
	late := time.After(faultLimit)
	for {
		p.mu.Lock()
		counts, news := p.counts, p.news
		p.mu.Unlock()
		if reached(counts) {
			return counts
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("testenv: proxy for %s: after %v still not: %s; it did %+v", p.target, faultLimit, what, counts)
		}
	}
}

// AwaitFaults returns once the proxy has done n things to the traffic: the moment a test is about has come.
func (p *Proxy) AwaitFaults(t TB, n int) Counts {
	t.Helper()
	return p.Await(t, "enough faults", func(c Counts) bool { return c.Faults() >= n })
}

func (p *Proxy) count(f func(*Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countLocked(f)
}

func (p *Proxy) countLocked(f func(*Counts)) {
	f(&p.counts)
	close(p.news)
	p.news = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		p.all.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.count(func(c *Counts) { c.Connections++ })
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	var server net.Conn
	if !refuse {
		server, _ = net.DialTimeout("tcp", p.target, dialLimit)
	}
	if server == nil {
		_ = client.Close()
		p.count(func(c *Counts) { c.Refused++ })
		return
	}
	l := &link{proxy: p, client: client, server: server}
	p.mu.Lock()
	select {
	case <-p.quit:
		p.mu.Unlock()
		l.close()
		return
	default:
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	p.all.Go(l.replies)
	l.requests()
}

func (p *Proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	close(p.quit)
	links := p.links
	p.links = nil
	p.mu.Unlock()
	for l := range links {
		l.close()
	}
	p.all.Wait()
}
