package testenv

import (
	"net"
	"time"
)

// withheld is a request that was swallowed, in the order in which they were.
type withheld struct {
	link  *link
	piece []byte
}

func (p *Proxy) withhold(l *link, piece []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.withholds = true
	p.withheld = append(p.withheld, withheld{l, piece})
	p.countLocked(func(c *Counts) { c.SwallowedRequests++ })
}

// Withheld returns how many swallowed requests could still be sent.
func (p *Proxy) Withheld() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.withheld)
}

func (p *Proxy) takeWithheld() []withheld {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.withheld
	p.withheld = nil
	return all
}

// end lets the server see at last that the clients of these requests went away, if they did.
func (p *Proxy) end(all []withheld) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range all {
		w.link.withholds = false
		if server, ok := w.link.server.(*net.TCPConn); ok && w.link.clientGone {
			_ = server.CloseWrite() // after what was sent; an error means that it is closed already
		}
	}
}

// Replay sends every swallowed request to the server, each on a fresh connection, and returns what the server answered, when
// it has answered: late copies of requests that nobody waits for any more. It is for protocols that need no greeting,
// such as that of Redis without a password; see [Proxy.Deliver].
func (p *Proxy) Replay(t TB) (answers []string) {
	t.Helper()
	all := p.takeWithheld()
	defer p.end(all)
	for _, w := range all {
		answer, err := once(p.target, w.piece)
		if err != nil {
			t.Fatalf("testenv: replay to %s: %v", p.target, err)
		}
		p.count(func(c *Counts) { c.Replayed++ })
		answers = append(answers, answer)
	}
	return answers
}

func once(target string, request []byte) (string, error) {
	conn, err := net.DialTimeout("tcp", target, dialLimit)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // the answer has been read; nothing depends on the close
	if err := conn.SetDeadline(time.Now().Add(replyLimit)); err != nil {
		return "", err
	}
	if _, err := conn.Write(request); err != nil {
		return "", err
	}
	buf := make([]byte, proxyRoom)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

// Deliver sends every swallowed request to the server on the connection that it came on, which for the server is still
// open, with its session and its transaction; only then does the server see that the client left, if it did. The
// answers go to the client if that is still there. It returns how many were sent; it does not wait for the server.
func (p *Proxy) Deliver(t TB) int {
	t.Helper()
	all := p.takeWithheld()
	defer p.end(all)
	for _, w := range all {
		if _, err := w.link.server.Write(w.piece); err != nil {
			t.Fatalf("testenv: deliver to %s: %v", p.target, err)
		}
		p.count(func(c *Counts) { c.Replayed++ })
	}
	return len(all)
}
