package latchkey

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Tx is the transaction as a function gets it: what sqlx offers for running statements, and neither Commit nor Rollback,
// which are the caller's. It also fulfils the DBTX of code made by sqlc, and [sqlx.ExtContext]. Statements run one at a
// time, as on every transaction. Once the transaction is over all methods answer [ErrTxFinished].
type Tx struct{ t *txn }

var _ sqlx.ExtContext = (*Tx)(nil)

// ExecContext runs a statement without rows.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return statement(tx.t, func(s *session) (sql.Result, error) { return s.run.ExecContext(ctx, query, args...) })
}

// QueryContext runs a query. Rows that are still open when the function returns are closed.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return statement(tx.t, func(s *session) (*sql.Rows, error) {
		ctx, cancel := s.cancelable(ctx)
		rows, err := s.run.QueryContext(ctx, query, args...)
		if err != nil {
			cancel()
			return nil, err
		}
		s.keep(openRows{rows, cancel})
		return rows, nil
	})
}

// QueryRowContext runs a query of one row.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	row, err := statement(tx.t, func(s *session) (*sql.Row, error) {
		row := s.run.QueryRowContext(s.endWith(ctx), query, args...)
		return row, row.Err()
	})
	if row == nil {
		return tx.t.m.db.QueryRowContext(overCtx{ctx, err}, query)
	}
	return row
}

// PrepareContext prepares a statement, which ends with the transaction.
func (tx *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return statement(tx.t, func(s *session) (*sql.Stmt, error) {
		stmt, err := s.run.PrepareContext(ctx, query)
		if err == nil {
			s.prepared.Store(true)
			s.keep(stmt)
		}
		return stmt, err
	})
}

// GetContext reads one row into dest; [sql.ErrNoRows] if there is none.
func (tx *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return done(statement(tx.t, func(s *session) (None, error) { return None{}, s.run.GetContext(ctx, dest, query, args...) }))
}

// SelectContext reads all rows into the slice that dest points to.
func (tx *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return done(statement(tx.t, func(s *session) (None, error) { return None{}, s.run.SelectContext(ctx, dest, query, args...) }))
}

// NamedExecContext is ExecContext with :names from a struct or map.
func (tx *Tx) NamedExecContext(ctx context.Context, query string, arg any) (sql.Result, error) {
	query, args, err := tx.BindNamed(query, arg)
	if err != nil {
		return nil, err
	}
	return tx.ExecContext(ctx, query, args...)
}

// NamedQueryContext is QueryxContext with :names from a struct or map.
func (tx *Tx) NamedQueryContext(ctx context.Context, query string, arg any) (*sqlx.Rows, error) {
	query, args, err := tx.BindNamed(query, arg)
	if err != nil {
		return nil, err
	}
	return tx.QueryxContext(ctx, query, args...)
}

// QueryxContext is QueryContext whose rows scan into structs.
func (tx *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	return statement(tx.t, func(s *session) (*sqlx.Rows, error) {
		ctx, cancel := s.cancelable(ctx)
		rows, err := s.run.QueryxContext(ctx, query, args...)
		if err != nil {
			cancel()
			return nil, err
		}
		s.keep(openRows{rows, cancel})
		return rows, nil
	})
}

// QueryRowxContext is QueryRowContext whose row scans into a struct.
func (tx *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	row, err := statement(tx.t, func(s *session) (*sqlx.Row, error) {
		row := s.run.QueryRowxContext(s.endWith(ctx), query, args...)
		return row, row.Err()
	})
	if row == nil {
		return tx.t.m.db.QueryRowxContext(overCtx{ctx, err}, query)
	}
	return row
}

// PreparexContext is PrepareContext whose statement scans into structs.
func (tx *Tx) PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error) {
	return statement(tx.t, func(s *session) (*sqlx.Stmt, error) {
		stmt, err := s.run.PreparexContext(ctx, query)
		if err == nil {
			s.prepared.Store(true)
			s.keep(stmt)
		}
		return stmt, err
	})
}

// Rebind turns question marks into the placeholders of the driver.
func (tx *Tx) Rebind(query string) string { return tx.t.m.db.Rebind(query) }

// BindNamed turns :names into placeholders of the driver, with their arguments.
func (tx *Tx) BindNamed(query string, arg any) (string, []any, error) {
	return tx.t.m.db.BindNamed(query, arg)
}

// DriverName is the name that the database was opened with.
func (tx *Tx) DriverName() string { return tx.t.m.db.DriverName() }

// statement runs one statement, unless the transaction is over or has been rolled back by the database.
func statement[R any](t *txn, f func(*session) (R, error)) (R, error) {
	var none R
	if err := t.gate.enter(); err != nil {
		return none, err
	}
	defer t.gate.leave()
	if err := t.lost(nil); err != nil {
		return none, err
	}
	t.ran.Store(true)
	r, err := f(t.s)
	_ = t.lost(err)
	return r, err
}

// lost finds out whether the database has rolled the transaction back, after a statement that ended with err. Then no
// other one gets in: what it writes would not be a part of anything.
func (t *txn) lost(err error) error {
	cause := t.s.lost(err)
	if cause == nil {
		return nil
	}
	t.root.fail(fmt.Errorf("the database rolled it back: %w", cause))
	failed := rollbackOnlyError{cause}
	t.gate.shut(failed)
	return failed
}

func done(_ None, err error) error { return err }

// cancelable makes a context by which a query can be given up, on MySQL.
func (s *session) cancelable(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.tx != nil {
		return ctx, func() {}
	}
	return context.WithCancel(ctx)
}

// endWith makes a context that ends with the transaction, for a row that nobody can close.
func (s *session) endWith(ctx context.Context) context.Context {
	ctx, cancel := s.cancelable(ctx)
	s.keep(openRows{nil, cancel})
	return ctx
}

// openRows are rows with what ends their query, or only that.
type openRows struct {
	rows interface {
		Next() bool
		Close() error
	}
	cancel context.CancelFunc
}

// Close implements io.Closer. It reads the rows to their end: while the driver itself does that, nothing can stop it.
func (r openRows) Close() error {
	defer r.cancel()
	if r.rows == nil {
		return nil
	}
	for r.rows.Next() {
		continue
	}
	return r.rows.Close()
}

// overCtx is a context that has ended with an error of ours: database/sql answers a query with it.
type overCtx struct {
	context.Context

	err error
}

func (c overCtx) Done() <-chan struct{} { return closedChan }
func (c overCtx) Err() error            { return c.err }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
