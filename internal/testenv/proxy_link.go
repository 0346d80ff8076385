package testenv

import (
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	deaf           atomic.Bool // replies are swallowed from now on
	cutReply       atomic.Bool // the next reply cuts it

	// Guarded by the proxy's mutex. While requests are withheld the server must not see that the client went away.
	withholds  bool
	clientGone bool
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// requests carries what the client says to the server.
func (l *link) requests() {
	buf := make([]byte, proxyRoom)
	for {
		n, err := l.client.Read(buf)
		if n > 0 && !l.request(slices.Clone(buf[:n])) {
			break
		}
		if err != nil {
			break
		}
	}
	_ = l.client.Close()
	if !l.proxy.leave(l) {
		_ = l.server.Close()
		l.proxy.forget(l)
	}
}

// request does to one request what the faults say. It returns false at the end of the connection.
func (l *link) request(piece []byte) bool {
	p := l.proxy
	p.count(func(c *Counts) { c.Requests++ })
	for _, f := range p.take(piece) {
		switch f.kind {
		case delayRequest:
			p.count(func(c *Counts) { c.Delayed++ })
			if !p.sleep(f.delay) {
				return false
			}
		case cutRequest:
			p.count(func(c *Counts) { c.Cut++ })
			return false
		case swallowRequest:
			p.withhold(l, piece)
			return true
		case swallowReply:
			l.deaf.Store(true)
		case cutReply:
			l.cutReply.Store(true)
		}
	}
	_, err := l.server.Write(piece)
	return err == nil
}

// replies carries what the server says to the client.
func (l *link) replies() {
	buf := make([]byte, proxyRoom)
	for {
		n, err := l.server.Read(buf)
		if n > 0 && !l.reply(buf[:n]) {
			break
		}
		if err != nil {
			break
		}
	}
	l.close()
	l.proxy.forget(l)
}

func (l *link) reply(piece []byte) bool {
	p := l.proxy
	p.count(func(c *Counts) { c.Replies++ })
	if d := p.replyDelay(); d > 0 {
		p.count(func(c *Counts) { c.Delayed++ })
		if !p.sleep(d) {
			return false
		}
	}
	switch {
	case l.deaf.Load() || p.swallowsReplies():
		l.deaf.Store(true)
		p.count(func(c *Counts) { c.SwallowedReplies++ })
		return true
	case l.cutReply.Load():
		p.count(func(c *Counts) { c.Cut++ })
		return false
	}
	_, err := l.client.Write(piece)
	return err == nil || p.leave(l)
}

// leave notes that the client went away and reports whether its connection to the server has to stay.
func (p *Proxy) leave(l *link) (stay bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.clientGone = true
	return l.withholds
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// sleep returns false when the proxy ends first.
func (p *Proxy) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.quit:
		return false
	}
}
