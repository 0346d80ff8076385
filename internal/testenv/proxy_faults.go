package testenv

import (
	"bytes"
	"time"
)

type faultKind uint8

const (
	delayRequest faultKind = iota + 1
	delayReply
	cutRequest
	cutReply
	swallowRequest
	swallowReply
)

// fault is one thing that a proxy does to requests that match, or to their replies.
type fault struct {
	kind  faultKind
	match func(request []byte) bool // nil: every one
	delay time.Duration
	times int // how often it is still to happen; negative: until healed
}

// FaultOption narrows a fault down. Without one it befalls everything until [Proxy.Heal].
type FaultOption func(*fault)

// Matching befalls only requests of which match says so, or the replies to them.
func Matching(match func(request []byte) bool) FaultOption {
	return func(f *fault) { f.match = match }
}

// Containing befalls only requests that contain the text.
func Containing(text string) FaultOption {
	return Matching(func(request []byte) bool { return bytes.Contains(request, []byte(text)) })
}

// Times ends the fault after it has happened n times.
func Times(n int) FaultOption {
	return func(f *fault) { f.times = n }
}

func (p *Proxy) add(kind faultKind, d time.Duration, opts []FaultOption) {
	f := &fault{kind: kind, delay: d, times: -1}
	for _, o := range opts {
		o(f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

// DelayRequests holds requests up, and whatever comes after them on the same connection.
func (p *Proxy) DelayRequests(d time.Duration, opts ...FaultOption) { p.add(delayRequest, d, opts) }

// DelayReplies holds up every piece that the server sends. It can't be narrowed down: pushes answer no request.
func (p *Proxy) DelayReplies(d time.Duration) { p.add(delayReply, d, nil) }

// CutRequests closes a connection when a request comes; the server does not get it.
func (p *Proxy) CutRequests(opts ...FaultOption) { p.add(cutRequest, 0, opts) }

// CutReplies lets a request through and closes its connection when the server answers.
func (p *Proxy) CutReplies(opts ...FaultOption) { p.add(cutReply, 0, opts) }

// SwallowRequests keeps requests from the server; the connection stays open, for the server also after the client has
// left. [Proxy.Replay] and [Proxy.Deliver] send them late.
func (p *Proxy) SwallowRequests(opts ...FaultOption) { p.add(swallowRequest, 0, opts) }

// SwallowReplies lets requests through and keeps the answers from the client: the one to the request that matched, and all
// that follow on its connection, even after Heal, since they answer questions that nobody has asked.
func (p *Proxy) SwallowReplies(opts ...FaultOption) { p.add(swallowReply, 0, opts) }

// Refuse closes every new connection at once, until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Heal ends all faults. What was swallowed stays swallowed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.refuse = nil, false
}

// Cut closes every connection there is, on both sides, and returns how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.countLocked(func(c *Counts) { c.Cut += len(links) })
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	return len(links)
}

// take returns what is to happen to a request and notes that it has.
func (p *Proxy) take(request []byte) []*fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hit []*fault
	for _, f := range p.faults {
		if f.kind == delayReply || f.times == 0 || f.match != nil && !f.match(request) {
			continue
		}
		if f.times > 0 {
			f.times--
		}
		hit = append(hit, f)
	}
	return hit
}

func (p *Proxy) replyDelay() (d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.kind == delayReply {
			d += f.delay
		}
	}
	return d
}

// swallowsReplies reports whether replies are swallowed whatever they answer: pushes too.
func (p *Proxy) swallowsReplies() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.kind == swallowReply && f.match == nil && f.times < 0 {
			return true
		}
	}
	return false
}
