//go:build unix

package transactions

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Withdrawal is the argument of the example.
type Withdrawal struct {
	ID     int `db:"id"`
	Amount int `db:"amount"`
}

func Example() {
	ctx := context.Background()
	locks := latchkey.New(memstore.New())
	db := sqlx.MustConnect("sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	db.MustExec("CREATE TABLE account (id int, balance int); INSERT INTO account VALUES (7, 100)")

	txm := latchkey.NewTxManager(db, latchkey.Fenced())
	if err := txm.EnsureFenceTable(ctx); err != nil {
		log.Fatal(err)
	}
	withdraw := latchkey.Action(
		locks.WithLock("account:#{param.id}", latchkey.Transactional(txm)),
		func(ctx context.Context, w Withdrawal) error {
			tx, _ := latchkey.TxFrom(ctx)
			_, err := tx.NamedExecContext(ctx, "UPDATE account SET balance = balance - :amount WHERE id = :id", w)
			return errors.Join(err, latchkey.AfterCommit(ctx, func(context.Context) error {
				fmt.Println("committed, and still locked:", locks.Held(ctx, "account:7"))
				return nil
			}))
		})

	fmt.Println(withdraw(ctx, Withdrawal{ID: 7, Amount: 30}))
	var balance int
	if err := db.Get(&balance, "SELECT balance FROM account"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(balance)
	_ = db.Close()
	// Output:
	// committed, and still locked: true
	// <nil>
	// 70
}
