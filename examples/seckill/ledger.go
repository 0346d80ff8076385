package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// Ledger is the stock and the orders, in two SQL tables. Its statements suit PostgreSQL and SQLite alike.
type Ledger struct {
	db            *sql.DB
	stock, orders string // table names
}

// openLedger opens the database at url: postgres://…, or the path of a SQLite file. The tables carry the run's name.
func openLedger(url, run string) (*Ledger, error) {
	driver, dsn := "pgx", url
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		if strings.Contains(url, "://") {
			return nil, fmt.Errorf("DATABASE_URL: postgres://… or the path of a SQLite file, not %s…", url[:strings.Index(url, "://")+3])
		}
		// Writers queue for the file instead of failing: without a lock the sale must go wrong, not stop.
		driver, dsn = "sqlite", url+"?_busy_timeout=20000&_journal_mode=WAL&_synchronous=NORMAL&_txlock=immediate"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return &Ledger{db: db, stock: run + "_stock", orders: run + "_orders"}, nil
}

// Close closes the database and leaves the tables.
func (l *Ledger) Close() error { return l.db.Close() }

// Create makes the tables.
func (l *Ledger) Create(ctx context.Context) error {
	return l.exec(ctx,
		"CREATE TABLE "+l.stock+" (sku TEXT PRIMARY KEY, bottles INTEGER NOT NULL)",
		"CREATE TABLE "+l.orders+" (sku TEXT NOT NULL, buyer INTEGER NOT NULL, bottle INTEGER NOT NULL)",
	)
}

// Drop removes the tables.
func (l *Ledger) Drop(ctx context.Context) error {
	return l.exec(ctx, "DROP TABLE IF EXISTS "+l.orders, "DROP TABLE IF EXISTS "+l.stock)
}

// Refill puts the bottles of one sku in stock and forgets all orders.
func (l *Ledger) Refill(ctx context.Context, sku string, bottles int) error {
	if err := l.exec(ctx, "DELETE FROM "+l.orders, "DELETE FROM "+l.stock); err != nil {
		return err
	}
	_, err := l.db.ExecContext(ctx, "INSERT INTO "+l.stock+" (sku, bottles) VALUES ($1, $2)", sku, bottles)
	return err
}

// Stock reads how many bottles are left.
func (l *Ledger) Stock(ctx context.Context, sku string) (bottles int, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT bottles FROM "+l.stock+" WHERE sku = $1", sku).Scan(&bottles)
	return bottles, err
}

// Record writes an order, and the stock as the caller wants it to be. The two are one transaction, so that a shop that
// dies here has sold the bottle or has not; but the stock was read before it began.
func (l *Ledger) Record(ctx context.Context, order Order, stock int) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit

	if _, err := tx.ExecContext(ctx, "UPDATE "+l.stock+" SET bottles = $1 WHERE sku = $2", stock, order.SKU); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+l.orders+" (sku, buyer, bottle) VALUES ($1, $2, $3)",
		order.SKU, order.Buyer, stock+1); err != nil {
		return err
	}
	return tx.Commit()
}

// Sold counts the orders.
func (l *Ledger) Sold(ctx context.Context) (orders int, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT count(*) FROM "+l.orders).Scan(&orders)
	return orders, err
}

func (l *Ledger) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%w, in %q", err, statement)
		}
	}
	return nil
}
