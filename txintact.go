package latchkey

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A database may end a transaction on its own account, and what the function does after that is then no part of it. What
// makes sure that none of that is committed is in txmysql.go and txsqlite.go; PostgreSQL does so by itself.

var errTxGone = errors.New("latchkey: the database has ended the transaction before COMMIT was sent")

// intact makes sure, once no statement runs any more, that the transaction can be committed and is the one that was begun.
func (s *session) intact() error {
	if s.m.dialect != MySQL {
		return s.lost(nil)
	}
	if !s.closeOpen() {
		return fmt.Errorf("latchkey: what the function has left open could not be closed within %v; "+
			"close rows, and wait for goroutines that use statements", endTimeout)
	}
	return s.marked()
}

// lost returns what has shown that the transaction is not there any more; err is how its last statement ended.
func (s *session) lost(err error) error {
	switch s.m.dialect {
	case MySQL:
		if err != nil && s.m.d.verdict(err) == verdictAborted {
			return err
		}
	case SQLite:
		if s.guard != nil {
			if s.guard.state.Load() == guardGone {
				return errors.Join(errTxGone, err)
			}
			return nil
		}
		if err == nil && !s.unseen.Load() {
			return nil
		}
		if gone := s.probed(); gone != nil {
			s.untold.Store(s.prepared.Load()) // which may have been run since, and committed by itself
			return errors.Join(gone, err)
		}
	default: // PostgreSQL refuses all statements of an aborted transaction, and its COMMIT
	}
	return nil
}

// keep remembers what the end of the transaction closes if the function has not. What goes wrong with it is not seen
// here.
func (s *session) keep(c io.Closer) {
	s.unseen.Store(true)
	if s.tx != nil {
		return // database/sql does it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
}

// closeOpen closes what was left open. It reports whether that was done in time: rows have to be read to their end, and a
// statement can't be closed while somebody runs it.
func (s *session) closeOpen() bool {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	if len(open) == 0 {
		return !s.stuck.Load()
	}
	closed := make(chan struct{})
	s.m.enders.run(func() {
		defer close(closed)
		for _, c := range open {
			_ = c.Close() // mostly closed already
		}
	})
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
	}
	s.stuck.Store(true)
	for _, c := range open {
		if rows, ok := c.(openRows); ok {
			rows.cancel() // the driver closes the connection
		}
	}
	return false
}
