package latchkey

import (
	"database/sql"
	"errors"
	"strings"
)

type sqliteDialect struct{}

func (sqliteDialect) schema() string {
	return `CREATE TABLE IF NOT EXISTS latchkey_fence (
	resource   TEXT NOT NULL PRIMARY KEY,
	token      INTEGER NOT NULL,
	holder     TEXT NOT NULL,
	nonce      TEXT NOT NULL,
	updated_at INTEGER NOT NULL
) WITHOUT ROWID`
}

const sqliteNow = `CAST(strftime('%s', 'now') AS INTEGER)`

func (sqliteDialect) raise(f *fenceRow) (string, []any) {
	return `INSERT INTO latchkey_fence (resource, token, holder, nonce, updated_at) VALUES (?, ?, ?, ?, ` + sqliteNow + `)
ON CONFLICT (resource) DO UPDATE
SET token = excluded.token, holder = excluded.holder, nonce = excluded.nonce, updated_at = excluded.updated_at
WHERE latchkey_fence.token < excluded.token
   OR (latchkey_fence.token = excluded.token AND latchkey_fence.holder = excluded.holder)`,
		[]any{f.resource, f.token, f.holder, f.nonce}
}

func (sqliteDialect) mint(resource, holder string) (string, []any) {
	return `INSERT INTO latchkey_fence (resource, token, holder, nonce, updated_at)
VALUES (?, ` + sqliteNow + ` * 1000000, ?, '', ` + sqliteNow + `)
ON CONFLICT (resource) DO UPDATE
SET token = max(latchkey_fence.token + 1, excluded.token), holder = excluded.holder, nonce = '', updated_at = excluded.updated_at
RETURNING token`, []any{resource, holder}
}

func (sqliteDialect) prepare(string) (string, []any) { return "", nil }

// Writing takes the one lock of the database, so that no other transaction is about to write.
func (sqliteDialect) lookup(resource string) (string, []any) {
	return `INSERT INTO latchkey_fence (resource, token, holder, nonce, updated_at) VALUES (?, 0, '', '', ` + sqliteNow + `)
ON CONFLICT (resource) DO UPDATE SET token = latchkey_fence.token
RETURNING token, holder, nonce`, []any{resource}
}

func (sqliteDialect) prune() string {
	return `DELETE FROM latchkey_fence WHERE updated_at < ` + sqliteNow + ` - ?`
}

// Every transaction is serializable, and one that read before somebody else wrote can't write any more.
func (sqliteDialect) snapshot() string { return `SELECT 1, 1` }

func (sqliteDialect) verdict(err error) verdict {
	var coded interface{ Code() int }
	switch {
	case errors.As(err, &coded):
		switch coded.Code() & 0xff {
		case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
			return verdictLocked
		case 1: // SQLITE_ERROR
			if strings.Contains(err.Error(), "no such table") {
				return verdictNoTable
			}
			return verdictRefused
		case 10: // SQLITE_IOERR
			return verdictUnclear
		}
		return verdictRefused
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone):
		return verdictNotSent
	}
	return verdictUnclear
}

// Without a transaction to commit, something has ended it before.
func (d sqliteDialect) commitVerdict(err error) verdict {
	if noTransaction(err) {
		return verdictUnclear
	}
	return d.verdict(err)
}
