package latchkey

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jmoiron/sqlx"
)

// SQLite rolls a whole transaction back when a write of it is interrupted or finds the disk full, and where a statement
// says OR ROLLBACK. The connection commits each further statement by itself then. Statements can be prepared and rows be
// read without passing through here, so the connection itself has to refuse: its commit hook lets nothing pass between
// BEGIN and our COMMIT, and its rollback hook tells that the transaction is gone.

// sqliteGuard is what the hooks of one connection look at.
type sqliteGuard struct{ state atomic.Int32 }

const (
	guardOff  int32 = iota // no transaction of ours
	guardOpen              // nothing may be committed
	guardEnds              // our COMMIT or ROLLBACK is under way
	guardGone              // the transaction was rolled back by SQLite; nothing may be committed
)

// mayCommit is the commit hook: not 0 turns the commit into a rollback.
func (g *sqliteGuard) mayCommit() int32 {
	if s := g.state.Load(); s == guardOpen || s == guardGone {
		return 1
	}
	return 0
}

// rolledBack is the rollback hook.
func (g *sqliteGuard) rolledBack() { g.state.CompareAndSwap(guardOpen, guardGone) }

// sqliteGuards are the guards of all connections, whatever manager uses them. Hooks stay: a driver may keep what it was
// given for as long as the connection lasts, and nobody says when that is closed. So many are remembered before all are
// forgotten, and made anew when they are asked for.
const mostGuards = 256

var sqliteGuards = struct {
	sync.Mutex

	of map[any]*sqliteGuard
}{of: make(map[any]*sqliteGuard)}

// guardOf returns the guard of a connection, nil if its driver has no hooks.
func guardOf(conn *sqlx.Conn) (g *sqliteGuard, err error) {
	err = conn.Raw(func(raw any) error {
		if !reflect.TypeOf(raw).Comparable() {
			return nil
		}
		sqliteGuards.Lock()
		defer sqliteGuards.Unlock()
		if g = sqliteGuards.of[raw]; g != nil {
			return nil
		}
		fresh := &sqliteGuard{}
		if !fresh.hook(raw) {
			return nil
		}
		if len(sqliteGuards.of) >= mostGuards {
			clear(sqliteGuards.of)
		}
		sqliteGuards.of[raw] = fresh
		g = fresh
		return nil
	})
	return g, err
}

// hook installs the hooks of modernc.org/sqlite or github.com/mattn/go-sqlite3, whose packages are not ours to import.
func (g *sqliteGuard) hook(raw any) bool {
	conn := reflect.ValueOf(raw)
	commit, rollback := conn.MethodByName("RegisterCommitHook"), conn.MethodByName("RegisterRollbackHook")
	onCommit, ok := hookOf(commit, func() int { return int(g.mayCommit()) }, g.mayCommit)
	if !ok {
		return false
	}
	onRollback, ok := hookOf(rollback, g.rolledBack)
	if !ok {
		return false
	}
	commit.Call([]reflect.Value{onCommit})
	rollback.Call([]reflect.Value{onRollback})
	return true
}

// hookOf finds the function that the method takes.
func hookOf(method reflect.Value, funcs ...any) (reflect.Value, bool) {
	if !method.IsValid() || method.Type().NumIn() != 1 || method.Type().IsVariadic() {
		return reflect.Value{}, false
	}
	want := method.Type().In(0)
	for _, f := range funcs {
		if v := reflect.ValueOf(f); want.Kind() == reflect.Func && v.CanConvert(want) {
			return v.Convert(want), true
		}
	}
	return reflect.Value{}, false
}

// watch has SQLite refuse to commit anything but what our COMMIT commits.
func (s *session) watch() error {
	var err error
	if s.guard, err = guardOf(s.conn); s.guard != nil {
		s.guard.state.Store(guardOpen)
	}
	return err
}

// ends lets COMMIT or ROLLBACK pass. It reports whether there is still something to commit.
func (g *sqliteGuard) ends() bool { return g == nil || g.state.CompareAndSwap(guardOpen, guardEnds) }

// off ends the guard's duty.
func (g *sqliteGuard) off() {
	if g != nil {
		g.state.Store(guardOff)
	}
}

// probed asks SQLite, where the driver has no hooks, whether it is in a transaction: it refuses to begin another one.
// Where it does not, the new one catches what comes after.
func (s *session) probed() error {
	ctx, cancel := context.WithTimeout(backgroundCtx, endTimeout)
	defer cancel()
	_, err := s.run.ExecContext(ctx, "BEGIN")
	switch {
	case err == nil:
		return errTxGone
	case strings.Contains(err.Error(), "within a transaction"):
		return nil
	}
	return fmt.Errorf("latchkey: whether the transaction is still there could not be found out: %w", err)
}

// noTransaction is what SQLite says to a COMMIT or ROLLBACK without a transaction.
func noTransaction(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no transaction is active")
}
