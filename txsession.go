package latchkey

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	// beginTries bounds how many broken connections of a pool are passed over.
	beginTries = 10
	// endTimeout bounds ROLLBACK and the statements around a transaction.
	endTimeout = 5 * time.Second
	// driverGrace is what a driver that does not listen to its context gets on top of a timeout.
	driverGrace = 500 * time.Millisecond
)

var (
	errCommitTimeout = errors.New("latchkey: COMMIT was not answered in time")
	errEndTimeout    = errors.New("latchkey: ROLLBACK was not answered in time")
	errBeginTimeout  = errors.New("latchkey: BEGIN was not answered in time")
)

// runner is what runs statements: a *sqlx.Tx, or the connection itself.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error)
	QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row
	PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error)
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// session is one transaction on a connection of its own.
//
// On PostgreSQL and SQLite it is the driver's transaction, begun with a context of ours: the drivers commit with the
// context that they began with, so ending it bounds a COMMIT, and no caller's ending ctx can race it. go-sql-driver
// commits without any context, so on MySQL the transaction is made of statements on the connection.
type session struct {
	m      *TxManager
	conn   *sqlx.Conn
	tx     *sqlx.Tx // nil on MySQL
	run    runner
	cancel context.CancelCauseFunc // ends the context that the transaction was begun with
	reset  string                  // undoes the settings that were made for this transaction

	guard *sqliteGuard // SQLite, if the driver has hooks

	unseen   atomic.Bool // rows or statements were handed out, whose errors are not seen here
	prepared atomic.Bool // statements were
	stuck    atomic.Bool // in what was left open
	untold   atomic.Bool // the transaction is gone, and nobody knows how it ended

	mu   sync.Mutex
	open []io.Closer // MySQL: rows and statements that the function may have left open
}

// begin opens a transaction. ctx bounds how long it takes; it does not end the transaction.
func (m *TxManager) begin(ctx context.Context, o *txConfig, fenced bool) (*session, error) {
	if _, ok := mysqlLevels[o.isolation]; !ok && m.dialect == MySQL && o.isolation != sql.LevelDefault {
		return nil, fmt.Errorf("latchkey: Isolation(%v): MySQL has no such level", o.isolation)
	}
	wait, cancel := context.WithTimeoutCause(ctx, o.connTimeout, errBeginTimeout)
	defer cancel()
	for try := 1; ; try++ {
		conn, err := m.db.Connx(wait)
		if err != nil {
			return nil, m.noConnection(wait, o, err)
		}
		s, err := m.beginOn(wait, conn, o, fenced)
		if err == nil {
			return s, nil
		}
		if wait.Err() != nil {
			return nil, fmt.Errorf("latchkey: BEGIN failed: %w", errors.Join(context.Cause(wait), err))
		}
		// A pool may be full of connections to a server that is gone; beginning twice does no harm.
		if v := m.d.verdict(err); v != verdictUnclear && v != verdictNotSent || try == beginTries {
			return nil, fmt.Errorf("latchkey: BEGIN failed: %w", err)
		}
	}
}

func (m *TxManager) noConnection(wait context.Context, o *txConfig, err error) error {
	if errors.Is(context.Cause(wait), errBeginTimeout) {
		st := m.db.Stats()
		return fmt.Errorf("latchkey: no database connection within %v: %d of at most %d are in use; raise DB.SetMaxOpenConns, "+
			"or don't begin a transaction while another one is held: %w", o.connTimeout, st.InUse, st.MaxOpenConnections, err)
	}
	if cause := context.Cause(wait); cause != nil {
		err = errors.Join(cause, err)
	}
	return fmt.Errorf("latchkey: no database connection: %w", err)
}

func (m *TxManager) beginOn(wait context.Context, conn *sqlx.Conn, o *txConfig, fenced bool) (*session, error) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(wait))
	s := &session{m: m, conn: conn, cancel: cancel}
	stop := context.AfterFunc(wait, func() { cancel(context.Cause(wait)) })
	var err error
	if m.dialect == MySQL {
		err = s.beginText(own, o, fenced)
	} else {
		s.tx, err = conn.BeginTxx(own, &sql.TxOptions{Isolation: o.isolation, ReadOnly: o.readOnly})
		s.run = s.tx
	}
	if err == nil && m.dialect == SQLite {
		err = s.watch()
	}
	if !stop() && err == nil {
		err = context.Cause(wait) // which has ended; own may not have heard yet
	}
	if err != nil {
		if s.tx != nil {
			_ = s.tx.Rollback() // its context has ended: only closes it
		}
		s.discard()
		return nil, err
	}
	return s, nil
}

// commit sends COMMIT and waits for the answer no longer than timeout.
func (s *session) commit(timeout time.Duration) (verdict, error) {
	if !s.guard.ends() {
		_ = s.rollback()
		return verdictRefused, rollbackOnlyError{errTxGone}
	}
	err := s.end(timeout, errCommitTimeout, "COMMIT", func() error { return s.tx.Commit() })
	if err == nil {
		s.close()
		return 0, nil
	}
	v := s.m.d.commitVerdict(err)
	if errors.Is(err, context.Canceled) || errors.Is(err, errCommitTimeout) {
		v = verdictUnclear
	}
	s.discard()
	return v, err
}

// rollback returns when the database has rolled back, or the connection, without which it can't commit, is closed.
func (s *session) rollback() error {
	if !s.closeOpen() {
		s.discard()
		return errEndTimeout
	}
	s.guard.ends()
	err := s.end(endTimeout, errEndTimeout, "ROLLBACK", func() error { return s.tx.Rollback() })
	if err != nil && !noTransaction(err) {
		s.discard()
		return err
	}
	s.close()
	return nil
}

func (s *session) end(timeout time.Duration, late error, text string, f func() error) error {
	if s.tx == nil {
		ctx, cancel := context.WithTimeoutCause(backgroundCtx, timeout, late)
		defer cancel()
		f = func() error {
			_, err := s.conn.ExecContext(ctx, text)
			if err != nil && ctx.Err() != nil {
				return errors.Join(late, err)
			}
			return err
		}
	}
	// On another goroutine, for drivers that do not listen to the context, and connections that somebody else is stuck in.
	done := make(chan error, 1)
	s.m.enders.run(func() { done <- f() })
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	s.cancel(late)
	timer.Reset(driverGrace)
	select {
	case err := <-done:
		if err != nil {
			err = errors.Join(late, err)
		}
		return err
	case <-timer.C:
		return late
	}
}

// close gives the connection back to the pool.
func (s *session) close() {
	if s.reset != "" {
		ctx, cancel := context.WithTimeout(backgroundCtx, endTimeout)
		defer cancel()
		if _, err := s.conn.ExecContext(ctx, s.reset); err != nil {
			s.discard()
			return
		}
	}
	s.guard.off()
	s.cancel(nil)
	_ = s.conn.Close() // gives it back; says so if it is closed already
}

// discard closes the connection for good. It does not wait for a driver that is stuck in it.
func (s *session) discard() {
	s.cancel(nil)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // closed: what it is for
		_ = s.conn.Close()
	}()
	timer := time.NewTimer(driverGrace)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	}
}
