package main

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/internal/servers"
)

// counters are what is counted up, each under a lock of its own.
var counters = []string{"a", "b", "c"}

// Till is the counters and a ledger of what was counted, in two SQL tables.
type Till struct {
	db               *sqlx.DB
	counters, ledger string // table names
}

func newTill(db *sqlx.DB, run string) *Till {
	return &Till{db: db, counters: run + "_counters", ledger: run + "_ledger"}
}

// Create makes the tables.
func (t *Till) Create(ctx context.Context) error {
	return servers.Exec(ctx, t.db,
		"CREATE TABLE "+t.counters+" (id TEXT PRIMARY KEY, n INTEGER NOT NULL)",
		"CREATE TABLE "+t.ledger+" (id TEXT NOT NULL)",
		"INSERT INTO "+t.counters+" (id, n) VALUES ('"+strings.Join(counters, "', 0), ('")+"', 0)",
	)
}

// Drop removes the tables.
func (t *Till) Drop(ctx context.Context) error {
	return servers.Exec(ctx, t.db, "DROP TABLE IF EXISTS "+t.ledger, "DROP TABLE IF EXISTS "+t.counters)
}

// Reset sets everything to zero.
func (t *Till) Reset(ctx context.Context) error {
	return servers.Exec(ctx, t.db, "UPDATE "+t.counters+" SET n = 0", "DELETE FROM "+t.ledger)
}

// Read reads a counter.
func (t *Till) Read(ctx context.Context, db sqlx.QueryerContext, id string) (n int, err error) {
	err = sqlx.GetContext(ctx, db, &n, "SELECT n FROM "+t.counters+" WHERE id = $1", id)
	return n, err
}

// Write writes a counter, and a line into the ledger, which is committed if the counter is.
func (t *Till) Write(ctx context.Context, tx sqlx.ExecerContext, id string, n int) error {
	if _, err := tx.ExecContext(ctx, "UPDATE "+t.counters+" SET n = $1 WHERE id = $2", n, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+t.ledger+" (id) VALUES ($1)", id)
	return err
}

// Totals returns how many transactions were committed, and what all counters come to, at one moment.
func (t *Till) Totals(ctx context.Context) (committed, counted int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM "+t.ledger+"), (SELECT sum(n) FROM "+t.counters+")").
		Scan(&committed, &counted)
	return committed, counted, err
}

// EnsureFence makes the table of the fence and returns what undoes that: a table that was there keeps all but our rows.
func (t *Till) EnsureFence(ctx context.Context, run string) (undo func(context.Context) error, err error) {
	_, missing := t.db.ExecContext(ctx, "SELECT 1 FROM latchkey_fence WHERE 1 = 0")
	undo = func(ctx context.Context) error {
		if missing != nil {
			return servers.Exec(ctx, t.db, "DROP TABLE IF EXISTS latchkey_fence")
		}
		return servers.Exec(ctx, t.db, "DELETE FROM latchkey_fence WHERE resource LIKE '"+run+":%'")
	}
	return undo, latchkey.NewTxManager(t.db).EnsureFenceTable(ctx)
}
