package latchkey

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// fenceMode says where fencing tokens come from.
type fenceMode uint8

const (
	fenceOff fenceMode = iota
	fenceStore
	fenceDatabase
)

const (
	fenceTries    = 10 // how often a transaction is begun anew because its fence failed
	fenceRemints  = 3  // for one lock
	minPruneAge   = time.Hour
	schemaTries   = 5
	firstFenceGap = time.Millisecond
	spareConnWait = 100 * time.Millisecond // for a connection beside the transaction's own
)

// fenceRow is one lock's row in latchkey_fence, as a transaction raises it.
type fenceRow struct {
	h        *hold
	resource string
	token    int64
	holder   string
	nonce    string // what the transaction is recognised by later
	seq      int64  // which of the hold's transactions it is
	wait     time.Duration
	idle     time.Duration
	mints    int // how often it got a newer token
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// FenceSchema returns the statement that creates the fence table, for migrations. [TxManager.EnsureFenceTable] runs
// it. It panics for a dialect that does not exist.
func FenceSchema(d Dialect) string {
	known, ok := dialects[d]
	if !ok {
		panic(fmt.Sprintf("latchkey: FenceSchema(%q): the dialects are %s, %s and %s", d, PostgreSQL, MySQL, SQLite))
	}
	return known.schema()
}

// EnsureFenceTable creates the fence table if it is not there. It may be called by several processes at once.
func (m *TxManager) EnsureFenceTable(ctx context.Context) error {
	var err error
	for range schemaTries {
		// PostgreSQL may refuse one of two that create the same table at the same moment.
		if _, err = m.db.ExecContext(ctx, m.d.schema()); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("latchkey: EnsureFenceTable: %w", err)
	}
	return nil
}

// PruneFence deletes the rows of locks that no transaction was fenced with for at least olderThan, and returns how many
// there were. A holder that is older than that would not be fenced off any more, so olderThan must be longer than any
// process may stand still and come back: at least an hour, better days.
func (m *TxManager) PruneFence(ctx context.Context, olderThan time.Duration) (int64, error) {
	if olderThan < minPruneAge {
		return 0, fmt.Errorf("latchkey: PruneFence(%v): a row must be kept for at least %v, or a holder that comes back after a "+
			"pause would not be fenced off", olderThan, minPruneAge)
	}
	res, err := m.db.ExecContext(ctx, m.db.Rebind(m.d.prune()), int64(olderThan/time.Second))
	if err != nil {
		return 0, fmt.Errorf("latchkey: PruneFence: %w", m.fenceHint(err))
	}
	return res.RowsAffected()
}

// fences reports whether a transaction with these options is fenced.
func (m *TxManager) fences(o *txConfig) bool {
	return m != nil && m.fence != fenceOff && !o.unfenced && !o.readOnly
}

// row makes the row that a transaction raises for a hold. Whoever only borrowed the lock raises none, wherever tokens come
// from: it would fence off the caller, who works under the same lock, or wait for a transaction that waits for it.
func (m *TxManager) row(ctx context.Context, t *txn, h *hold) (*fenceRow, error) {
	if h.g.proof != "" {
		return nil, errNoBorrowedTokens
	}
	for lv := t.outer; lv != nil; lv = lv.t.outer {
		if lv.t.open() && lv.t.raised(h.g.full) {
			return nil, fmt.Errorf("latchkey: the transaction around this one holds the fence of %s until it ends; "+
				"join it, or begin this one with WithoutFence() if it writes nothing that the lock guards", quote(h.g.key()))
		}
	}
	f := &fenceRow{h: h, resource: h.g.full, holder: h.holder(), nonce: rand.Text(), wait: m.fenceWait, idle: m.fenceIdle}
	var err error
	if m.fence == fenceDatabase {
		f.token, err = m.databaseToken(ctx, h)
	} else {
		f.token, err = h.mintToken(ctx)
	}
	return f, err
}

func (t *txn) raised(resource string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.fences, func(f *fenceRow) bool { return f.resource == resource })
}

// rows makes the rows for all holds, in an order that is the same for everybody.
func (m *TxManager) rows(ctx context.Context, t *txn) ([]*fenceRow, error) {
	rows := make([]*fenceRow, 0, len(t.holds))
	for _, h := range t.holds {
		f, err := m.row(ctx, t, h)
		if err != nil {
			return nil, err
		}
		rows = append(rows, f)
	}
	slices.SortFunc(rows, func(a, b *fenceRow) int { return strings.Compare(a.resource, b.resource) })
	return rows, nil
}

// raise executes the fence statement. ok is false if the row was not raised: a newer holder was there, or, on
// MySQL, there is no row yet.
func (m *TxManager) raise(ctx context.Context, run runner, f *fenceRow) (ok bool, err error) {
	f.seq = f.h.fences.Add(1) // before the nonce can be in the row
	ctx, cancel := context.WithTimeoutCause(ctx, f.wait+driverGrace, errFenceWait)
	defer cancel()
	query, args := m.d.raise(f)
	res, err := run.ExecContext(ctx, query, args...)
	if err != nil {
		if errors.Is(context.Cause(ctx), errFenceWait) {
			err = errors.Join(errFenceWait, err)
		}
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

var errFenceWait = errors.New("latchkey: another transaction holds the fence row")

// makeRow makes a missing row outside any transaction, where the database needs that. It reports whether it did.
func (m *TxManager) makeRow(ctx context.Context, resource string) (bool, error) {
	query, args := m.d.prepare(resource)
	if query == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.fenceWait)
	defer cancel()
	res, err := m.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, m.fenceHint(err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// seen reads the token that is in a row; 0 if there is none.
func (m *TxManager) seen(ctx context.Context, resource string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.fenceWait)
	defer cancel()
	var token int64
	err := m.db.GetContext(ctx, &token, m.db.Rebind(`SELECT token FROM latchkey_fence WHERE resource = ?`), resource)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return token, err
}

// databaseToken has the database mint the hold's token, once, in a statement of its own. Raising the row at once waits
// for a transaction that is past its fence, and fences off one that is not.
func (m *TxManager) databaseToken(ctx context.Context, h *hold) (int64, error) {
	h.tokens.Lock()
	defer h.tokens.Unlock()
	if token, ok := h.dbTokens[m]; ok {
		return token, nil
	}
	if !h.claim(watchdog.Now()) {
		return 0, h.gone()
	}
	token, err := m.mintInDatabase(ctx, h.g.full, h.holder())
	if err != nil {
		return 0, m.fenceFailed(h, err)
	}
	if h.dbTokens == nil {
		h.dbTokens = make(map[*TxManager]int64)
	}
	h.dbTokens[m] = token
	return token, nil
}

func (m *TxManager) mintInDatabase(ctx context.Context, resource, holder string) (token int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.fenceWait, errFenceWait)
	defer cancel()
	gap := firstFenceGap
	for {
		token, err = m.mintOnce(ctx, resource, holder)
		if err == nil {
			return token, nil
		}
		if v := m.d.verdict(err); v != verdictLocked && v != verdictAborted && v != verdictNotSent || !sleep(ctx, gap) {
			if errors.Is(context.Cause(ctx), errFenceWait) {
				err = errors.Join(errFenceWait, err)
			}
			return 0, err
		}
		gap = min(gap*2, 20*time.Millisecond)
	}
}

func (m *TxManager) mintOnce(ctx context.Context, resource, holder string) (token int64, err error) {
	query, args := m.d.mint(resource, holder)
	if m.dialect != MySQL {
		err = m.db.QueryRowContext(ctx, query, args...).Scan(&token)
		return token, err
	}
	for range 2 {
		res, err := m.db.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		}
		if _, err := m.makeRow(ctx, resource); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the row is gone as soon as it is made")
}

// fenceHint says what to do about a table that is not there.
func (m *TxManager) fenceHint(err error) error { return noTableHint(m.dialect, err) }

func noTableHint(dialect Dialect, err error) error {
	if dialects[dialect].verdict(err) == verdictNoTable {
		return fmt.Errorf("there is no table latchkey_fence; call TxManager.EnsureFenceTable, "+
			"or run FenceSchema(%q) in a migration: %w", dialect, err)
	}
	return err
}

// fenceFailed makes the error for a fence that was neither raised nor refused.
func (m *TxManager) fenceFailed(h *hold, err error) error {
	if m.d.verdict(err) == verdictLocked || errors.Is(err, errFenceWait) {
		// The lock was free; the transaction of a holder before us was not over yet.
		return &BusyError{Key: h.g.key(), Waited: m.fenceWait, Cause: err}
	}
	return fmt.Errorf("latchkey: the fence of %s could not be raised: %w", quote(h.g.key()), m.fenceHint(err))
}

// fencedError says who was there before. It matches [ErrFenced].
type fencedError struct {
	key         string
	token, seen int64
}

func (e fencedError) Error() string {
	seen := "a newer one"
	if e.seen > 0 {
		seen = fmt.Sprint(e.seen)
	}
	return fmt.Sprintf("%v: %s: token %d, the database has seen %s; the transaction can't be committed, calling again is safe",
		ErrFenced, quote(e.key), e.token, seen)
}
func (e fencedError) Is(target error) bool { return target == ErrFenced }
