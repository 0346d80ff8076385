package latchkey

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// opening begins a transaction whose first statements raise its fence rows. Nothing of the function has run yet, so
// whatever fails for a passing reason is begun anew, within bounds.
type opening struct {
	m     *TxManager
	t     *txn
	fresh []*hold // taken for this transaction: nobody has read anything under them yet
	rows  []*fenceRow
	start time.Time
}

// begin opens the transaction in the database.
func (t *txn) begin(ctx context.Context, fresh []*hold) error {
	m := t.m
	o := opening{m: m, t: t, fresh: fresh, start: time.Now()}
	if m.fences(&t.cfg) {
		rows, err := m.rows(ctx, t)
		if err != nil {
			return err
		}
		o.rows = rows
	}
	for try := 1; ; try++ {
		s, err := m.begin(ctx, &t.cfg, len(o.rows) > 0)
		var f *fenceRow
		if err == nil {
			if f, err = o.raise(ctx, s); err == nil {
				t.s, t.fences = s, o.rows
				return nil
			}
			_ = s.rollback() // nothing was done in it
		}
		if err := o.again(ctx, f, err, try); err != nil {
			return err
		}
	}
}

// raise raises all rows. It returns the row that failed.
func (o *opening) raise(ctx context.Context, s *session) (*fenceRow, error) {
	for _, f := range o.rows {
		ok, err := o.m.raise(ctx, s.run, f)
		if err == nil && !ok {
			err = errNotRaised
		}
		if err != nil {
			return f, err
		}
	}
	return nil, nil
}

var errNotRaised = errors.New("latchkey: the fence row was not raised")

// again decides about another try: nil if there is to be one. f is the row that could not be raised, nil if the
// transaction could not be begun.
func (o *opening) again(ctx context.Context, f *fenceRow, err error, try int) error {
	m := o.m
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(err, cause) {
			return err
		}
		return errors.Join(cause, err)
	}
	if len(o.rows) == 0 {
		return err
	}
	if f != nil && errors.Is(err, errNotRaised) {
		return o.refused(ctx, f)
	}
	left := m.fenceWait - time.Since(o.start)
	switch m.d.verdict(err) {
	case verdictAborted:
		if try < fenceTries {
			return o.pause(ctx, try)
		}
	case verdictLocked:
		if left > 0 && !errors.Is(err, errFenceWait) {
			for _, f := range o.rows {
				f.wait = left
			}
			return o.pause(ctx, try)
		}
	case verdictUnclear, verdictNotSent:
		if f != nil && try < fenceTries/2 && !errors.Is(err, errFenceWait) {
			return o.pause(ctx, try)
		}
	default:
	}
	if f == nil {
		return err
	}
	return m.fenceFailed(f.h, err)
}

func (o *opening) pause(ctx context.Context, try int) error {
	most := min(firstFenceGap<<min(try, 5), 20*time.Millisecond)
	if !sleep(ctx, most/2+rand.N(most)) { //nolint:gosec // spreads tries; nobody has to guess it
		return context.Cause(ctx)
	}
	return nil
}

// refused deals with a row that is not below the token: there is none yet, or a newer holder has raised it, or the store
// has forgotten how far its tokens had come.
func (o *opening) refused(ctx context.Context, f *fenceRow) error {
	m := o.m
	if made, err := m.makeRow(ctx, f.resource); err != nil || made {
		if err != nil {
			return m.fenceFailed(f.h, err)
		}
		return nil
	}
	seen, err := m.seen(ctx, f.resource)
	if err != nil {
		return m.fenceFailed(f.h, err)
	}
	return f.remint(ctx, m, slices.Contains(o.fresh, f.h), seen)
}

// remint gets the row a token above the one that the database has seen. Only for a hold under which nothing has run:
// the store may be behind, and says whether the lock is ours. Otherwise the refusal is final.
func (f *fenceRow) remint(ctx context.Context, m *TxManager, fresh bool, seen int64) error {
	if !fresh || m.fence != fenceStore || f.mints >= fenceRemints {
		return fencedError{f.h.g.key(), f.token, seen}
	}
	f.mints++
	if err := f.h.mintAbove(ctx, seen); err != nil {
		return err
	}
	f.token = f.h.token
	return nil
}

// fenceInside raises the row of a lock that was taken inside the open transaction. What fails can't be begun anew here.
func (t *txn) fenceInside(ctx context.Context, h *hold, fresh bool) error {
	if t.m == nil || !t.m.fences(&t.cfg) || t.raised(h.g.full) {
		return nil
	}
	f, err := t.m.row(ctx, t, h)
	if err != nil {
		return err
	}
	if err := t.gate.enter(); err != nil {
		return err
	}
	defer t.gate.leave()
	if err := t.m.rowBefore(ctx, t.s.run, f.resource); err != nil {
		t.root.fail(err)
		return t.m.fenceFailed(h, err)
	}
	for {
		ok, err := t.m.raise(ctx, t.s.run, f)
		if err != nil {
			err = t.m.fenceFailed(h, err)
			t.root.fail(err)
			return err
		}
		if ok {
			t.mu.Lock()
			t.fences = append(t.fences, f)
			t.mu.Unlock()
			return nil
		}
		var row fenceFound
		if err := row.read(ctx, t.m, t.s.run, f.resource); err != nil {
			err = t.m.fenceFailed(h, err)
			t.root.fail(err)
			return err
		}
		if err := f.remint(ctx, t.m, fresh, row.token); err != nil {
			return err
		}
	}
}

// rowBefore makes a missing row before the transaction asks for it, where the database needs that: an UPDATE that finds
// none would lock the gap in which the row belongs, against everybody. Another connection makes it, so that it is
// there at once; if the pool has none to spare, the transaction itself does.
func (m *TxManager) rowBefore(ctx context.Context, run runner, resource string) error {
	if m.dialect != MySQL {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, spareConnWait)
	defer cancel()
	if _, err := m.makeRow(short, resource); err == nil || short.Err() == nil || ctx.Err() != nil {
		return err
	}
	query, args := m.d.prepare(resource)
	_, err := run.ExecContext(ctx, query, args...)
	return err
}

// fenceFound is what stands in a row.
type fenceFound struct {
	token         int64
	holder, nonce string
}

// read waits for whatever transaction is about to write the row, and reads it.
func (r *fenceFound) read(ctx context.Context, m *TxManager, run runner, resource string) error {
	query, args := m.d.lookup(resource)
	if err := run.QueryRowContext(ctx, query, args...).Scan(&r.token, &r.holder, &r.nonce); err != nil {
		return fmt.Errorf("look up the fence row: %w", err)
	}
	return nil
}
