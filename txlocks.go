package latchkey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// staleness is what is known about the snapshot of a transaction.
type staleness uint8

const (
	staleUnknown  staleness = iota
	staleNever              // every statement sees what was committed before it
	staleDetected           // reads see one moment, and a write that is based on an older one fails
	staleUnseen             // reads see one moment
)

// admits decides whether a lock on the key may be taken inside the open transaction, if there is one: not if its reads
// show a moment before the lock was taken.
func (lv *txLevel) admits(ctx context.Context, key string, r *request) error {
	t := lv.carrier(r)
	if t == nil || t.cfg.allowStale {
		return nil
	}
	t.mu.Lock()
	began := t.m == nil || len(t.fences) > 0 || t.ran.Load()
	known := t.stale
	t.mu.Unlock()
	if !began {
		return nil
	}
	if known == staleUnknown {
		var err error
		if known, err = t.findStaleness(ctx); err != nil {
			return err
		}
		t.mu.Lock()
		t.stale = known
		t.mu.Unlock()
	}
	switch {
	case known == staleNever, known == staleDetected && t.m.fences(&t.cfg):
		return nil
	case t.m == nil && known == staleUnknown:
		return fmt.Errorf("latchkey: %s can't be locked inside this scope: its isolation level is not known; "+
			"say ScopeIsolation(level), or lock before the transaction", quote(key))
	}
	return fmt.Errorf("latchkey: %s can't be locked inside this transaction any more: it reads from a snapshot that is older "+
		"than the lock; lock before the transaction (Transactional), use Isolation(sql.LevelReadCommitted), "+
		"or allow it with AllowStaleSnapshot()", quote(key))
}

// carrier is the transaction that carries a lock, nil if none does.
func (lv *txLevel) carrier(r *request) *txn {
	if r.apart {
		return nil
	}
	for ; lv != nil; lv = lv.t.outer {
		if lv.t.open() {
			return lv.t
		}
	}
	return nil
}

// findStaleness goes by the level that the transaction was begun with, and asks the database where that says too little.
func (t *txn) findStaleness(ctx context.Context) (staleness, error) {
	switch t.cfg.isolation {
	case sql.LevelReadUncommitted, sql.LevelReadCommitted:
		if t.m == nil || t.m.dialect != SQLite {
			return staleNever, nil
		}
	case sql.LevelDefault:
		if t.m == nil {
			return staleUnknown, nil
		}
	default:
		if t.m == nil {
			return staleUnseen, nil
		}
	}
	if err := t.gate.enter(); err != nil {
		return 0, err
	}
	defer t.gate.leave()
	var snapshot, detects int
	err := t.s.run.QueryRowContext(ctx, t.m.d.snapshot()).Scan(&snapshot, &detects)
	if t.cfg.isolation != sql.LevelDefault {
		snapshot = 1 // MySQL knows only the session's
	}
	switch {
	case err != nil && t.m.dialect != MySQL:
		return 0, fmt.Errorf("latchkey: ask the database for the isolation level: %w", err)
	case err != nil: // a server without these variables
		return staleUnseen, nil
	case snapshot == 0:
		return staleNever, nil
	case detects == 1:
		return staleDetected, nil
	}
	return staleUnseen, nil
}

// adopt has the open transaction, if there is one, carry the locks of the lease and raise their fences. fresh are those
// that were taken just now. On an error the lease is released.
func (lv *txLevel) adopt(ctx context.Context, le *Lease, fresh []*hold, r *request) (*Lease, error) {
	t := lv.carrier(r)
	if t == nil {
		return le, nil
	}
	err := t.carry(le)
	for _, h := range le.holds {
		// What was held before the transaction began was fenced then.
		if err == nil && !slices.Contains(t.holds, h) {
			err = t.fenceInside(ctx, h, slices.Contains(fresh, h))
		}
	}
	if err == nil {
		return le, nil
	}
	if _, failed := le.release(ctx); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, err
}

// holds reports whether a transaction that the context is in carries a lock on the key.
func (lv *txLevel) holds(store Store, full string, now watchdog.Reading) bool {
	for ; lv != nil; lv = lv.t.outer {
		lv.t.mu.Lock()
		carried := lv.t.carried
		if lv.t.phase == txOver {
			carried = nil
		}
		lv.t.mu.Unlock()
		for _, le := range carried {
			for _, h := range le.holds {
				if h.g.locks.store == store && h.g.full == full && h.live(now) {
					return true
				}
			}
		}
	}
	return false
}
