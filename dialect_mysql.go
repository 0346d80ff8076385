package latchkey

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
)

type mysqlDialect struct{}

func (mysqlDialect) schema() string {
	return `CREATE TABLE IF NOT EXISTS latchkey_fence (
	resource   varbinary(512) NOT NULL PRIMARY KEY,
	token      bigint NOT NULL,
	holder     varchar(64) CHARACTER SET ascii NOT NULL,
	nonce      varchar(64) CHARACTER SET ascii NOT NULL,
	updated_at datetime(6) NOT NULL
) ENGINE=InnoDB`
}

// A new nonce always changes the row, so that "affected" and "found" are the same number.
func (mysqlDialect) raise(f *fenceRow) (string, []any) {
	return `UPDATE latchkey_fence SET token = ?, holder = ?, nonce = ?, updated_at = utc_timestamp(6)
WHERE resource = ? AND (token < ? OR (token = ? AND holder = ?))`,
		[]any{f.token, f.holder, f.nonce, f.resource, f.token, f.token, f.holder}
}

// LAST_INSERT_ID hands the new token over in the same answer.
func (mysqlDialect) mint(resource, holder string) (string, []any) {
	return `UPDATE latchkey_fence SET token = LAST_INSERT_ID(greatest(token + 1, cast(unix_timestamp(now(6)) * 1000000 AS signed))),
holder = ?, nonce = '', updated_at = utc_timestamp(6) WHERE resource = ?`, []any{holder, resource}
}

// Inserting inside the transaction would lock gaps, and transactions of different keys would deadlock.
func (mysqlDialect) prepare(resource string) (string, []any) {
	return `INSERT IGNORE INTO latchkey_fence (resource, token, holder, nonce, updated_at) VALUES (?, 0, '', '', utc_timestamp(6))`,
		[]any{resource}
}

func (mysqlDialect) lookup(resource string) (string, []any) {
	return `SELECT token, holder, nonce FROM latchkey_fence WHERE resource = ? FOR UPDATE`, []any{resource}
}

func (mysqlDialect) prune() string {
	return `DELETE FROM latchkey_fence WHERE updated_at < utc_timestamp(6) - INTERVAL ? SECOND`
}

// Only MariaDB can refuse a write that is based on an older snapshot, and it has to be told to.
func (mysqlDialect) snapshot() string {
	return `SELECT
	coalesce((SELECT variable_value FROM information_schema.session_variables
		WHERE lower(variable_name) IN ('tx_isolation', 'transaction_isolation') LIMIT 1), 'REPEATABLE-READ')
		IN ('REPEATABLE-READ', 'SERIALIZABLE'),
	coalesce((SELECT variable_value FROM information_schema.session_variables
		WHERE lower(variable_name) = 'innodb_snapshot_isolation'), 'OFF') = 'ON'`
}

func (mysqlDialect) verdict(err error) verdict {
	number, ok := mysqlNumber(err)
	switch {
	case ok:
		switch number {
		case 1020, 1213: // changed since the snapshot, deadlock: all is rolled back
			return verdictAborted
		case 1205: // waited for a lock
			return verdictLocked
		case 1146:
			return verdictNoTable
		case 1053, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317, 1927, 3024: // the session or COMMIT was cut short
			return verdictUnclear
		}
		return verdictRefused
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		return verdictNotSent // go-sql-driver says so only if nothing was written
	}
	return verdictUnclear
}

// Only what is known to be the server's own refusal is one. A proxy hands on in the same shape that it has lost the server.
func (d mysqlDialect) commitVerdict(err error) verdict {
	if number, ok := mysqlNumber(err); ok {
		switch number {
		case 1020, 1205, 1213: // changed since the snapshot, waited for a lock, deadlock (or another node's write)
		case 1290, 1792, 1836: // the server or the transaction is read-only
		case 3101: // refused by the group
		default:
			return verdictUnclear
		}
	}
	return d.verdict(err)
}

// mysqlNumber finds the number in a *mysql.MySQLError, whose package is not ours to import.
func mysqlNumber(err error) (uint64, bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct || v.Type().Name() != "MySQLError" {
			continue
		}
		if f := v.FieldByName("Number"); f.IsValid() && f.CanUint() {
			return f.Uint(), true
		}
	}
	return 0, false
}
