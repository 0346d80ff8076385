package quorumstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/redisreply"
)

const (
	// firstProbe and maxProbe are the pauses between a failure and the next look at a master, doubling.
	firstProbe = 50 * time.Millisecond
	maxProbe   = time.Second
)

// breaker keeps callers from waiting for a master that failed or was slow. Such a master is skipped, and probed in the
// background, by nobody who waits, when there is something to ask it; one good answer in time brings it back.
type breaker struct {
	open    bool
	probing bool
	next    time.Time // when to probe
	pause   time.Duration
}

// serving reports whether the master may be asked. If not, and it is time to look at it again, a probe is started.
func (m *master) serving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.breaker.open {
		return true
	}
	if !m.breaker.probing && time.Now().After(m.breaker.next) {
		m.breaker.probing = true
		go m.probe()
	}
	return false
}

// skipped reports whether the master is out of service, without starting a probe.
func (m *master) skipped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.breaker.open
}

// failed notes that the master did not answer, or not in time.
func (m *master) failed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &m.breaker
	if !b.open {
		b.open, b.pause, b.next = true, firstProbe, time.Now().Add(firstProbe)
	}
}

// worked notes that the master answered in time. A master that was out of service is back, and is first asked to take
// back what was left on it.
func (m *master) worked() {
	m.mu.Lock()
	was := m.breaker.open
	m.breaker.open = false
	m.mu.Unlock()
	if was {
		m.flush()
	}
}

func (m *master) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), m.patience)
	defer cancel()
	asked := time.Now()
	ping := command{redis.NewCmd(ctx, "ping")}
	err := m.client.Process(ctx, ping)
	good := (err == nil || redisreply.Answered(err)) && time.Since(asked) <= m.patience
	m.mu.Lock()
	b := &m.breaker
	b.probing = false
	if !good {
		b.pause = min(2*b.pause, maxProbe)
		b.next = time.Now().Add(b.pause)
	}
	m.mu.Unlock()
	if good {
		m.worked()
	}
}
