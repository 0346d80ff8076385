package quorumstore

import (
	"time"

	"github.com/latchkey-go/latchkey/internal/redisreply"
)

const (
	// maxUndo bounds what is remembered for a master that does not answer; what is forgotten ends with its lease.
	maxUndo = 4096
	// undoPause is how long to wait before a master is asked again to take something back.
	undoPause = 200 * time.Millisecond
)

// undoing is something to be taken back on one master.
type undoing struct {
	key, owner, value string
	hint              bool
	bar               time.Duration // how long late copies of the request are to be refused
	until             time.Time     // when it is not worth the trouble any more
}

// undoList is what a master has to take back: votes whose fate is not known, because the request got no answer, and votes
// that were given before it went out of service. One answer is enough for each, because late copies of the request
// are barred.
type undoList struct {
	todo []undoing
	busy bool // somebody sends, or a timer will
}

// takeBack has the master take something back in the background: now, or when it is in service again.
func (m *master) takeBack(u undoing) {
	// A copy that a paused server still has in its buffers comes to life when the server does, for a whole lease.
	u.until = time.Now().Add(2*u.bar + time.Minute)
	m.mu.Lock()
	if len(m.undo.todo) >= maxUndo {
		m.undo.todo = append(m.undo.todo[:0], m.undo.todo[1:]...)
	}
	m.undo.todo = append(m.undo.todo, u)
	start := !m.undo.busy && !m.breaker.open
	later := !m.undo.busy && m.breaker.open
	m.undo.busy = true
	m.mu.Unlock()
	switch {
	case start:
		go m.flushing()
	case later:
		time.AfterFunc(undoPause, m.tend)
	}
}

// flush sends what is left to take back, in the background.
func (m *master) flush() {
	m.mu.Lock()
	start := len(m.undo.todo) > 0 && !m.undo.busy
	if start {
		m.undo.busy = true
	}
	m.mu.Unlock()
	if start {
		go m.flushing()
	}
}

// tend is called from time to time while something is left to take back, so that a master is looked at again even if
// nobody asks it for anything else.
func (m *master) tend() {
	if m.serving() {
		m.flushing()
		return
	}
	m.rest()
}

// flushing sends all there is to take back, in as few trips as it takes.
func (m *master) flushing() {
	for {
		m.mu.Lock()
		todo := m.undo.todo
		m.undo.todo = nil
		m.mu.Unlock()
		if len(todo) == 0 {
			break
		}
		late := time.Now().Add(m.patience)
		calls := make([]*call, len(todo))
		for i, u := range todo {
			calls[i] = newCall(late, releaseScript, lockKeys(u.key), releaseArgs(u.owner, u.value, u.hint, "", u.bar))
			m.batch.Add(calls[i])
		}
		timer := time.NewTimer(m.patience)
		var left []undoing
		for i, c := range calls {
			select {
			case <-c.done:
				if c.err != nil && !redisreply.Final(c.err) {
					left = append(left, todo[i])
				}
			case <-timer.C:
				timer.Reset(0) // for the others too
				left = append(left, todo[i])
			}
		}
		timer.Stop()
		if len(left) > 0 {
			m.mu.Lock()
			m.undo.todo = append(left, m.undo.todo...)
			m.mu.Unlock()
			m.failed()
			break
		}
	}
	m.rest()
}

// rest forgets what is not worth the trouble any more and sets the timer for what is left.
func (m *master) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, left := time.Now(), m.undo.todo[:0]
	for _, u := range m.undo.todo {
		if now.Before(u.until) {
			left = append(left, u)
		}
	}
	m.undo.todo = left
	m.undo.busy = len(left) > 0
	if m.undo.busy {
		time.AfterFunc(undoPause, m.tend)
	}
}
