package latchkey

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const defaultScopeHold = 10 * time.Minute

// Scope stands for a transaction that another library begins and commits: pgx, gorm, bun, ent. See [InScope].
type Scope struct {
	t *txn
	// sent counts the transactions whose COMMIT may be under way.
	sent atomic.Int32

	// Guarded by the mutex of t.
	dialect Dialect
	mixed   bool // several were named
}

// FenceExec executes a statement in the other library's transaction and returns how many rows it affected.
type FenceExec func(ctx context.Context, query string, args ...any) (rowsAffected int64, err error)

// FenceOn is the [FenceExec] of whatever has the method of database/sql: *sql.Tx, *sqlx.Tx, bun.Tx, gorm's ConnPool.
func FenceOn(tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) FenceExec {
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		res, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	}
}

// FenceWith is the [FenceExec] of an Exec method whose result counts the rows by itself, as pgx's does: FenceWith(tx.Exec).
func FenceWith[R interface{ RowsAffected() int64 }](
	exec func(ctx context.Context, query string, args ...any) (R, error),
) FenceExec {
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		res, err := exec(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return res.RowsAffected(), nil
	}
}

// ScopeOption is an option of [InScope].
type ScopeOption interface{ applyScope(c *scopeConfig) }

type scopeConfig struct {
	tx      txConfig
	maxHold time.Duration
	dialect Dialect
	errs    []error
}

type scopeOption func(*scopeConfig)

func (o scopeOption) applyScope(c *scopeConfig) { o(c) }

// ScopeIsolation says at which isolation level the other library's transaction runs. It must be said if locks are taken
// inside: under REPEATABLE READ and SERIALIZABLE they are refused, unless [AllowStaleSnapshot] is given.
func ScopeIsolation(level sql.IsolationLevel) ScopeOption {
	return scopeOption(func(c *scopeConfig) { c.tx.isolation = level })
}

// ScopeMaxHold bounds how long locks are held for a scope that does not end, ten minutes unless set: then its context is
// cancelled with [ErrLeaseLost] and the locks are not renewed any more.
func ScopeMaxHold(d time.Duration) ScopeOption {
	return scopeOption(func(c *scopeConfig) {
		if d <= 0 {
			c.errs = append(c.errs, fmt.Errorf("latchkey: ScopeMaxHold(%v): the bound must be positive", d))
			return
		}
		c.maxHold = d
	})
}

// InScope gives the transaction of another library what [TxManager.InTx] gives sqlx's: locks that are taken inside fn are
// let go at its end, and hooks run there. fn begins the transaction, commits it and returns only then; what is done in it
// is given to [Scope.Run]:
//
//	err := latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
//		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//			return s.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error {
//				// … statements …
//			})
//		})
//	})
//
// If fn returns nil the transaction counts as committed. If it returns an error before [Scope.BeforeCommit] has let COMMIT
// go ahead it counts as rolled back. After that it does so only if the error is the server's answer that COMMIT was
// refused, exactly as the library returned it, and the answer leaves no doubt: on PostgreSQL any, on MySQL a deadlock, on SQLite
// none. So fn must return the library's error and no other one. Whatever else it returns, and a panic, means that the outcome
// is unknown: the error matches [ErrOutcomeUnknown] and the locks are left to expire. Nothing is looked up: it is for the
// caller to look at what was written.
func InScope(ctx context.Context, fn func(ctx context.Context, s *Scope) error, opts ...ScopeOption) error {
	if fn == nil {
		return errors.New("latchkey: InScope: the function is nil")
	}
	c := scopeConfig{tx: txConfig{commitTimeout: defaultCommitTimeout}, maxHold: defaultScopeHold}
	for i, o := range opts {
		if isNil(o) {
			return fmt.Errorf("latchkey: InScope: option %d is nil; leave it out", i+1)
		}
		o.applyScope(&c)
	}
	if err := errors.Join(c.errs...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("latchkey: no scope was begun: %w", context.Cause(ctx))
	}
	s := &Scope{t: &txn{cfg: c.tx, hooks: hookConfig{timeout: defaultHookTimeout}, outer: levelOf(ctx)}}
	s.dialect = c.dialect
	s.t.holds = heldBy(ctx)
	s.t.start(ctx)
	forgotten := time.AfterFunc(c.maxHold, func() {
		s.t.ctx.cancel(fmt.Errorf("%w: the scope did not end within %v (ScopeMaxHold)", ErrLeaseLost, c.maxHold))
		for _, h := range s.t.allHolds() {
			h.fade()
		}
	})
	defer forgotten.Stop()
	return s.run(fn)
}

func (s *Scope) run(fn func(context.Context, *Scope) error) error {
	returned := false
	defer func() {
		if !returned {
			s.settle(s.failed(nil))
		}
	}()
	err := fn(&s.t.ctx, s)
	returned = true
	if err == nil {
		s.settle(OutcomeCommitted)
		return nil
	}
	o := s.failed(err)
	s.settle(o)
	if o == OutcomeUnknown {
		return unknownError{err, "this error is no certain answer of the database that it was refused"}
	}
	return err
}

func (s *Scope) settle(o Outcome) { s.t.settle(o) }

// Run runs work between [Scope.Fence] and [Scope.BeforeCommit]: it is all that is done in the other library's transaction.
// Its error must be returned to whoever commits, so that the transaction is rolled back. The fence table must exist if
// locks are held: see [FenceSchema].
func (s *Scope) Run(ctx context.Context, dialect Dialect, exec FenceExec, work func() error) error {
	if err := s.Fence(ctx, dialect, exec); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return s.BeforeCommit(ctx)
}

// Fence raises the fence rows of all locks that ctx and the scope hold, through the other library's transaction. It must be
// the transaction's first statement. The error matches [ErrFenced] if a newer holder was there: return it, so that the
// transaction is rolled back. On MySQL a lock's first row is made inside the transaction; make rows beforehand where
// deadlocks between new keys matter.
func (s *Scope) Fence(ctx context.Context, dialect Dialect, exec FenceExec) error {
	d, ok := dialects[dialect]
	switch {
	case !ok:
		return fmt.Errorf("latchkey: Scope.Fence: dialect %q is not known; the dialects are %s, %s and %s",
			dialect, PostgreSQL, MySQL, SQLite)
	case exec == nil:
		return errors.New("latchkey: Scope.Fence: exec is nil; pass FenceOn(tx), or a function that executes a statement")
	case !s.t.open():
		return txFinishedError{"nothing can be fenced in it"}
	}
	holds := s.t.allHolds()
	slices.SortFunc(holds, func(a, b *hold) int { return strings.Compare(a.g.full, b.g.full) })
	s.speaks(dialect)
	// Also those that were raised before: that may have been in a transaction that was rolled back.
	for _, h := range holds {
		token, err := h.mintToken(ctx)
		if err != nil {
			return err
		}
		f := &fenceRow{
			h: h, resource: h.g.full, token: token, holder: h.holder(), nonce: rand.Text(), wait: defaultFenceWait, idle: defaultFenceIdle,
		}
		if ok, err := f.raiseWith(ctx, d, exec); err != nil {
			return fmt.Errorf("latchkey: the fence of %s could not be raised: %w", quote(h.g.key()), noTableHint(dialect, err))
		} else if !ok {
			return fencedError{key: h.g.key(), token: token}
		}
		s.t.mu.Lock()
		s.t.fences = append(s.t.fences, f)
		s.t.mu.Unlock()
	}
	return nil
}

// raiseWith raises the row through the other library's transaction. ok is false if a newer holder was there.
func (f *fenceRow) raiseWith(ctx context.Context, d dialect, exec FenceExec) (ok bool, err error) {
	f.seq = f.h.fences.Add(1)
	query, args := d.raise(f)
	n, err := exec(ctx, query, args...)
	if n > 0 || err != nil {
		return n > 0, err
	}
	prepare, with := d.prepare(f.resource)
	if prepare == "" {
		return false, nil
	}
	if n, err = exec(ctx, prepare, with...); n == 0 || err != nil { // the row was there
		return false, err
	}
	n, err = exec(ctx, query, args...)
	return n > 0, err
}

// BeforeCommit runs the BeforeCommit hooks and makes sure that every lock lasts for as long as COMMIT may take. Call it
// last in the transaction and return its error, so that the transaction is rolled back if there is one.
func (s *Scope) BeforeCommit(ctx context.Context) error {
	t := s.t
	if !t.open() {
		return txFinishedError{"it can't be committed again"}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := t.beforeCommit(); err != nil {
		return err
	}
	if err := t.ended(); err != nil {
		return err
	}
	if _, err := t.covered(); err != nil {
		return err
	}
	s.sent.Add(1)
	return nil
}
