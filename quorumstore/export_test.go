package quorumstore

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
)

// Flying returns how many votes are not cast yet.
func Flying(s *Store) int64 { return s.flying.Load() }

// HoldBack keeps redsync's goroutine for one master from going on before the gate is open, as a busy scheduler may.
func HoldBack(s *Store, master int, gate <-chan struct{}) {
	pools := make([]redsyncredis.Pool, len(s.masters))
	for i, m := range s.masters {
		pools[i] = pool{m}
	}
	pools[master] = gated{pool{s.masters[master]}, gate}
	s.engine = redsync.New(pools...)
}

type gated struct {
	pool
	gate <-chan struct{}
}

func (p gated) Get(ctx context.Context) (redsyncredis.Conn, error) {
	<-p.gate
	return p.pool.Get(ctx)
}

// AskTooLate has a call carried to a master that nobody waits for any more, and returns what became of it.
func AskTooLate(s *Store, master int) error {
	c := newCall(time.Now(), releaseScript, lockKeys("k"), releaseArgs("lk:A", "", false, "", 0))
	s.masters[master].trip([]*call{c})
	<-c.done
	return c.err
}
