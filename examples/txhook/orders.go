package main

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
)

// Order is an order of lock and transaction.
type Order string

// The orders.
const (
	UnlockFirst Order = "unlock before COMMIT"
	ByHand      Order = "lock around, by hand"
	Inside      Order = "lock inside"
	Around      Order = "lock around"
	Two         Order = "lock around two"
)

// key is the lock of a counter.
const key = "counter:#{id}"

// counting returns the function that counts once, in the order asked for.
func (t *Teller) counting(order Order) func(ctx context.Context, id string) error {
	id := latchkey.Params("id")
	locked := latchkey.Action2(t.locks.WithLock(key, latchkey.Params("id", "tx")), t.count)
	switch order {
	case UnlockFirst:
		// A transaction, and in it a function under a lock: the lock is let go when the function returns, and the next
		// holder reads what is not yet committed, which is to say what was there before.
		return func(ctx context.Context, id string) error {
			return t.byHand(ctx, func(tx *sqlx.Tx) error { return locked(ctx, id, tx) })
		}

	case ByHand:
		// The right order, and nobody looks at the lease when the transaction is committed.
		return latchkey.Action(t.locks.WithLock(key, id), func(ctx context.Context, id string) error {
			ctx = context.WithoutCancel(ctx)
			return t.byHand(ctx, func(tx *sqlx.Tx) error { return t.count(ctx, id, tx) })
		})

	case Inside:
		// The same code as in the first order, but the transaction is latchkey's, which carries the lock to its end.
		return func(ctx context.Context, id string) error {
			return t.txm.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error { return locked(ctx, id, tx) })
		}

	case Around:
		// One option: the lock is taken, then the transaction begun, committed, and the lock let go.
		return latchkey.Action(t.locks.WithLock(key, id, latchkey.Transactional(t.txm)),
			func(ctx context.Context, id string) error {
				tx, _ := latchkey.TxFrom(ctx)
				return t.count(ctx, id, tx)
			})

	case Two:
		// One lock around two transactions, of which the second one writes what follows from the first.
		return latchkey.Action(t.locks.WithLock(key, id), func(ctx context.Context, id string) error {
			var n int
			err := t.txm.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) (err error) {
				n, err = t.till.Read(ctx, tx, id)
				return err
			})
			if err != nil {
				return err
			}
			t.think(id)
			return t.txm.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) error { return t.till.Write(ctx, tx, id, n+1) })
		})
	}
	panic("no such order: " + order)
}

// count reads the counter, thinks, and writes one more: the code that everybody writes first. It reads with a statement of
// its own and writes in the transaction, as code does whose parts know little of each other. In PostgreSQL a read inside
// the transaction would change nothing; SQLite would refuse the write, and the control could not lose anything.
func (t *Teller) count(ctx context.Context, id string, tx sqlx.ExtContext) error {
	n, err := t.till.Read(ctx, t.till.db, id)
	if err != nil {
		return err
	}
	t.think(id)
	return t.till.Write(ctx, tx, id, n+1)
}

// byHand is a transaction as it is written without latchkey.
func (t *Teller) byHand(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := t.till.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
