package latchkey

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// MySQL and MariaDB roll a whole transaction back on their own account (a deadlock, and more), commit it when they meet a
// statement like CREATE TABLE, and then commit each further statement by itself. Not all of that can be seen from here: an
// error may come out of a row or a prepared statement, which are the driver's. So
//
//   - the session does not commit by itself while the transaction lasts: what comes after such an end gets into a new
//     transaction, which nobody commits;
//   - the transaction begins with a savepoint, which ends with it: where it is gone before COMMIT, so is the transaction.

const mysqlMark = "latchkey_begin"

var mysqlLevels = map[sql.IsolationLevel]string{
	sql.LevelReadUncommitted: "READ UNCOMMITTED", sql.LevelReadCommitted: "READ COMMITTED",
	sql.LevelRepeatableRead: "REPEATABLE READ", sql.LevelSerializable: "SERIALIZABLE",
}

// beginText begins a transaction on the connection. A savepoint begins it where the session does not commit by itself.
func (s *session) beginText(ctx context.Context, o *txConfig, fenced bool) error {
	s.run = s.conn
	set, reset, err := s.m.settings.statements(ctx, s.m, s.conn, fenced)
	if err != nil {
		return err
	}
	s.reset = reset
	var modes []string
	if o.isolation != sql.LevelDefault {
		modes = append(modes, "ISOLATION LEVEL "+mysqlLevels[o.isolation])
	}
	if o.readOnly {
		modes = append(modes, "READ ONLY")
	}
	statements := []string{set}
	if modes != nil {
		statements = append(statements, "SET TRANSACTION "+strings.Join(modes, ", "))
	}
	for _, text := range append(statements, "SAVEPOINT "+mysqlMark) {
		if _, err := s.conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// marked makes sure that the transaction is still the one that was begun.
func (s *session) marked() error {
	err := s.end(endTimeout, errEndTimeout, "RELEASE SAVEPOINT "+mysqlMark, nil)
	if n, ok := mysqlNumber(err); ok && n == 1305 { // does not exist
		s.untold.Store(true)
		return fmt.Errorf("%w: rolled back, after a deadlock for example, or committed by a statement like CREATE TABLE; "+
			"what came after that was rolled back", errTxGone)
	}
	return err
}

// mysqlSettings are the session variables of a transaction.
type mysqlSettings struct {
	mu      sync.Mutex
	version string
}

// statements returns the statement that makes the settings and the one that restores what was there. For a fenced
// transaction they limit how long it waits for a row, and, on MariaDB, how long it may stand still while others wait for
// its rows.
func (c *mysqlSettings) statements(ctx context.Context, m *TxManager, conn *sqlx.Conn, fenced bool) (set, reset string, _ error) {
	type setting struct {
		name  string
		value int64
	}
	settings := []setting{{"autocommit", 0}}
	if fenced {
		version, err := c.ask(ctx, conn)
		if err != nil {
			return "", "", err
		}
		settings = append(settings, setting{"innodb_lock_wait_timeout", wholeSeconds(m.fenceWait)})
		if strings.Contains(strings.ToLower(version), "mariadb") {
			settings = append(settings, setting{"idle_transaction_timeout", wholeSeconds(m.fenceIdle)})
		}
	}
	sets, resets := make([]string, 0, 2*len(settings)), make([]string, 0, len(settings))
	for _, v := range settings {
		sets = append(sets, fmt.Sprintf("@latchkey_%s = @@%s, %s = %d", v.name, v.name, v.name, v.value))
		resets = append(resets, fmt.Sprintf("%s = @latchkey_%s", v.name, v.name))
	}
	return "SET " + strings.Join(sets, ", "), "SET " + strings.Join(resets, ", "), nil
}

func (c *mysqlSettings) ask(ctx context.Context, conn *sqlx.Conn) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == "" {
		if err := conn.GetContext(ctx, &c.version, `SELECT version()`); err != nil {
			return "", err
		}
	}
	return c.version, nil
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
