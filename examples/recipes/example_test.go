//go:build unix

package recipes_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"gorm.io/gorm"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/recipes"
	"github.com/latchkey-go/latchkey/memstore"
)

// Deposit is the argument of the examples.
type Deposit struct{ Account, Amount int }

// Account is a row.
type Account struct {
	ID      int `bun:",pk"`
	Balance int
}

// It needs a PostgreSQL server, so it is compiled here and not run.
func ExampleInPgx() {
	ctx := context.Background()
	locks := latchkey.New(memstore.New())
	pool, err := pgxpool.New(ctx, "postgres://localhost/bank")
	if err != nil {
		fmt.Println(err)
		return
	}

	deposit := latchkey.Action(locks.WithLock("account:#{param.account}"), func(ctx context.Context, d Deposit) error {
		return recipes.InPgx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $1 WHERE id = $2", d.Amount, d.Account)
			return err
		})
	})
	fmt.Println(deposit(ctx, Deposit{Account: 7, Amount: 30}))
}

func ExampleInGorm() {
	ctx := context.Background()
	locks := latchkey.New(memstore.New())
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, _ := db.DB()
	defer pool.Close()
	pool.SetMaxOpenConns(1) // each connection would have a memory of its own
	db.Exec(latchkey.FenceSchema(latchkey.SQLite))
	_ = db.AutoMigrate(&Account{})
	db.Create(&Account{ID: 7, Balance: 100})

	deposit := latchkey.Action(locks.WithLock("account:#{param.account}"), func(ctx context.Context, d Deposit) error {
		return recipes.InGorm(ctx, db, latchkey.SQLite, func(_ context.Context, tx *gorm.DB) error {
			var a Account
			if err := tx.First(&a, d.Account).Error; err != nil {
				return err
			}
			a.Balance += d.Amount
			return tx.Save(&a).Error
		})
	})
	fmt.Println(deposit(ctx, Deposit{Account: 7, Amount: 30}))

	var a Account
	db.First(&a, 7)
	fmt.Println(a.Balance)
	// Output:
	// <nil>
	// 130
}

func ExampleInBun() {
	ctx := context.Background()
	locks := latchkey.New(memstore.New())
	pool, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	db := bun.NewDB(pool, sqlitedialect.New())
	_, _ = db.ExecContext(ctx, latchkey.FenceSchema(latchkey.SQLite))
	_, _ = db.NewCreateTable().Model((*Account)(nil)).Exec(ctx)
	_, _ = db.NewInsert().Model(&Account{ID: 7, Balance: 100}).Exec(ctx)

	deposit := latchkey.Action(locks.WithLock("account:#{param.account}"), func(ctx context.Context, d Deposit) error {
		return recipes.InBun(ctx, db, latchkey.SQLite, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewUpdate().Model((*Account)(nil)).Set("balance = balance + ?", d.Amount).Where("id = ?", d.Account).Exec(ctx)
			return err
		})
	})
	fmt.Println(deposit(ctx, Deposit{Account: 7, Amount: 30}))

	a := Account{ID: 7}
	_ = db.NewSelect().Model(&a).WherePK().Scan(ctx)
	fmt.Println(a.Balance)
	// Output:
	// <nil>
	// 130
}
