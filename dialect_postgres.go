package latchkey

import (
	"database/sql"
	"errors"
	"strings"
)

type postgresDialect struct{}

func (postgresDialect) schema() string {
	return `CREATE TABLE IF NOT EXISTS latchkey_fence (
	resource   text COLLATE "C" PRIMARY KEY,
	token      bigint NOT NULL,
	holder     text NOT NULL,
	nonce      text NOT NULL,
	updated_at timestamptz NOT NULL
)`
}

// The settings are those of this transaction alone. They are made before the row is waited for, as the row to insert
// depends on them.
func (postgresDialect) raise(f *fenceRow) (string, []any) {
	return `INSERT INTO latchkey_fence AS f (resource, token, holder, nonce, updated_at)
SELECT $1::text, $2::bigint, $3::text, $4::text, clock_timestamp()
WHERE set_config('lock_timeout', $5::text, true) IS NOT NULL
  AND set_config('idle_in_transaction_session_timeout', $6::text, true) IS NOT NULL
ON CONFLICT (resource) DO UPDATE
SET token = excluded.token, holder = excluded.holder, nonce = excluded.nonce, updated_at = excluded.updated_at
WHERE f.token < excluded.token OR (f.token = excluded.token AND f.holder = excluded.holder)`,
		[]any{f.resource, f.token, f.holder, f.nonce, millis(f.wait), millis(f.idle)}
}

func (postgresDialect) mint(resource, holder string) (string, []any) {
	return `INSERT INTO latchkey_fence AS f (resource, token, holder, nonce, updated_at)
VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2, '', clock_timestamp())
ON CONFLICT (resource) DO UPDATE
SET token = greatest(f.token + 1, excluded.token), holder = excluded.holder, nonce = '', updated_at = excluded.updated_at
RETURNING token`, []any{resource, holder}
}

func (postgresDialect) prepare(string) (string, []any) { return "", nil }

// A plain SELECT … FOR UPDATE would not wait for a transaction that inserts the row.
func (postgresDialect) lookup(resource string) (string, []any) {
	return `INSERT INTO latchkey_fence AS f (resource, token, holder, nonce, updated_at)
VALUES ($1, 0, '', '', clock_timestamp())
ON CONFLICT (resource) DO UPDATE SET token = f.token
RETURNING token, holder, nonce`, []any{resource}
}

func (postgresDialect) prune() string {
	return `DELETE FROM latchkey_fence WHERE updated_at < clock_timestamp() - $1 * interval '1 second'`
}

// A transaction that has a snapshot fails with 40001 when it writes a row that changed since.
func (postgresDialect) snapshot() string {
	return `SELECT CASE WHEN current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN 1 ELSE 0 END, 1`
}

func (postgresDialect) verdict(err error) verdict {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		switch code := state.SQLState(); {
		case code == "40001", code == "40P01":
			return verdictAborted
		case code == "55P03":
			return verdictLocked
		case code == "42P01":
			return verdictNoTable
		case code == "40003":
			return verdictUnclear
		// The server ends the session, perhaps just after it has committed; or something is wrong below it.
		case code == "", strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "58"),
			strings.HasPrefix(code, "XX"), code == "25P03", code == "25P04":
			return verdictUnclear
		}
		return verdictRefused
	}
	var sent interface{ SafeToRetry() bool }
	if errors.As(err, &sent) && sent.SafeToRetry() {
		return verdictNotSent
	}
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone) {
		return verdictNotSent
	}
	// What the drivers say when the server answered COMMIT with ROLLBACK, since a statement had failed: pgx, lib/pq.
	for _, text := range []string{
		"commit unexpectedly resulted in rollback", "in a failed transaction", "unexpected command tag ROLLBACK",
	} {
		if strings.Contains(err.Error(), text) {
			return verdictRefused
		}
	}
	return verdictUnclear
}

func (d postgresDialect) commitVerdict(err error) verdict { return d.verdict(err) }
