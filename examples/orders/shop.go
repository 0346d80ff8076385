package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver

	"github.com/latchkey-go/latchkey"
)

// Shop is what both faces call. It knows nothing of locks: its code is wrong wherever two calls for one order meet.
type Shop struct{ db *sqlx.DB }

// Order is what is to be paid and has been.
type Order struct {
	ID    string `json:"order_id"`
	Total int64  `json:"total"`
	Paid  int64  `json:"paid"`
}

var (
	errNoOrder = errors.New("no such order")
	errTooMuch = errors.New("more than is left to pay")
)

// openShop opens the database in the file and makes the tables.
func openShop(ctx context.Context, file string) (*Shop, error) {
	db, err := sqlx.Open("sqlite", "file:"+file+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER NOT NULL, paid INTEGER NOT NULL);
		CREATE TABLE payments (order_id TEXT NOT NULL, amount INTEGER NOT NULL)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Shop{db}, nil
}

// Fill makes orders 1 to n, of which nothing is paid.
func (s *Shop) Fill(ctx context.Context, n, total int) error {
	for i := range n {
		if _, err := s.db.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?, 0)", fmt.Sprint(i+1), total); err != nil {
			return err
		}
	}
	return nil
}

// Pay reads what has been paid, thinks, and writes more.
func (s *Shop) Pay(ctx context.Context, id string, amount int64, think time.Duration) (Order, error) {
	order, err := s.Get(ctx, id)
	if err != nil {
		return order, err
	}
	if amount < 1 || order.Paid+amount > order.Total {
		return order, errTooMuch
	}
	select {
	case <-time.After(think):
	case <-ctx.Done():
		return order, context.Cause(ctx)
	}
	order.Paid += amount
	if _, err := s.conn(ctx).ExecContext(ctx, "INSERT INTO payments VALUES (?, ?)", id, amount); err != nil {
		return order, err
	}
	_, err = s.conn(ctx).ExecContext(ctx, "UPDATE orders SET paid = ? WHERE id = ?", order.Paid, id)
	return order, err
}

// Get returns an order.
func (s *Shop) Get(ctx context.Context, id string) (Order, error) {
	o := Order{ID: id}
	err := s.conn(ctx).QueryRowxContext(ctx, "SELECT total, paid FROM orders WHERE id = ?", id).Scan(&o.Total, &o.Paid)
	if errors.Is(err, sql.ErrNoRows) {
		return o, errNoOrder
	}
	return o, err
}

// conn is the call's transaction, if it has one.
func (s *Shop) conn(ctx context.Context) sqlx.ExtContext {
	if tx, ok := latchkey.TxFrom(ctx); ok {
		return tx
	}
	return s.db
}

// Received returns how much was paid for all orders, how much for orders that were full already, and how much of it the
// orders do not know of.
func (s *Shop) Received(ctx context.Context) (received, tooMuch, forgotten int64, err error) {
	err = s.db.QueryRowxContext(ctx, `
		SELECT sum(got), sum(max(got - total, 0)), sum(got - paid)
		FROM (SELECT o.total, o.paid, coalesce(sum(p.amount), 0) AS got
		      FROM orders o LEFT JOIN payments p ON p.order_id = o.id GROUP BY o.id)`).Scan(&received, &tooMuch, &forgotten)
	return received, tooMuch, forgotten, err
}
