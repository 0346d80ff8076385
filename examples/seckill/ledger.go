package main

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/internal/servers"
)

// Ledger is the stock and the orders, in two SQL tables. Its statements suit PostgreSQL and SQLite alike. They run in the
// transaction that their context carries, if there is one.
type Ledger struct {
	db            *sqlx.DB
	txm           *latchkey.TxManager
	stock, orders string // table names
}

// newLedger makes a ledger whose tables carry the run's name.
func newLedger(db *sqlx.DB, run string) *Ledger {
	return &Ledger{db: db, txm: latchkey.NewTxManager(db), stock: run + "_stock", orders: run + "_orders"}
}

// Create makes the tables.
func (l *Ledger) Create(ctx context.Context) error {
	return servers.Exec(ctx, l.db,
		"CREATE TABLE "+l.stock+" (sku TEXT PRIMARY KEY, bottles INTEGER NOT NULL)",
		"CREATE TABLE "+l.orders+" (sku TEXT NOT NULL, buyer INTEGER NOT NULL, bottle INTEGER NOT NULL)",
	)
}

// Drop removes the tables.
func (l *Ledger) Drop(ctx context.Context) error {
	return servers.Exec(ctx, l.db, "DROP TABLE IF EXISTS "+l.orders, "DROP TABLE IF EXISTS "+l.stock)
}

// Refill puts the bottles of one sku in stock and forgets all orders.
func (l *Ledger) Refill(ctx context.Context, sku string, bottles int) error {
	if err := servers.Exec(ctx, l.db, "DELETE FROM "+l.orders, "DELETE FROM "+l.stock); err != nil {
		return err
	}
	_, err := l.db.ExecContext(ctx, "INSERT INTO "+l.stock+" (sku, bottles) VALUES ($1, $2)", sku, bottles)
	return err
}

// Stock reads how many bottles are left.
func (l *Ledger) Stock(ctx context.Context, sku string) (bottles int, err error) {
	var db sqlx.QueryerContext = l.db
	if tx, ok := latchkey.TxFrom(ctx); ok {
		db = tx
	}
	err = sqlx.GetContext(ctx, db, &bottles, "SELECT bottles FROM "+l.stock+" WHERE sku = $1", sku)
	return bottles, err
}

// Record writes an order, and the stock as the caller wants it to be. The two are one transaction, so that a shop that
// dies here has sold the bottle or has not; but unless the caller is in it already, the stock was read before it began.
func (l *Ledger) Record(ctx context.Context, order Order, stock int) error {
	return l.txm.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE "+l.stock+" SET bottles = $1 WHERE sku = $2", stock, order.SKU); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+l.orders+" (sku, buyer, bottle) VALUES ($1, $2, $3)",
			order.SKU, order.Buyer, stock+1)
		return err
	})
}

// Sold counts the orders.
func (l *Ledger) Sold(ctx context.Context) (orders int, err error) {
	err = l.db.GetContext(ctx, &orders, "SELECT count(*) FROM "+l.orders)
	return orders, err
}
