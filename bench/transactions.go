package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bsm/redislock"
	_ "github.com/jackc/pgx/v5/stdlib" // driver
	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // driver

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// The contenders that change a row in a transaction under the lock.
const (
	isTxByHand = "lock and transaction by hand"
	isTxHandle = "Acquire and transaction by hand"
	isTx       = "latchkey Transactional"
	isTxFenced = "latchkey Transactional Fenced"
)

// transactions measures a lock around a transaction: lock, BEGIN, UPDATE, COMMIT, unlock; by hand with two commands of go-redis,
// and with the same store as the decorator.
func transactions(env testenv.TB, c config, r *report) {
	c = c.fine(100 * time.Millisecond)
	p := twoCores()
	for _, db := range []string{"postgres", "sqlite"} {
		srv := p.redis(env)
		driver, url := openBank(env, db, p.server)
		r.titlef("transactions, %s, %s: one goroutine, free keys: lock, BEGIN, UPDATE of one row, COMMIT, unlock", db, p.name)
		contenders := []string{isTxByHand, isTxHandle, isTx, isTxFenced}
		contests := make([]*contest, len(contenders))
		for i, name := range contenders {
			contests[i] = &contest{srv: srv, crew: hire[pairsResult](env, 1, p.client,
				job{Load: "pairs", Contender: name, Addr: srv.Addr(), Goroutines: 1, Driver: driver, URL: url})}
		}
		interleave(env, c.rounds, c.slice, contests...)

		rows := make([]string, len(contenders))
		for i, one := range contests {
			rows[i] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", contenders[i], one.nanos.times(1e-3).spread("%.0f"),
				one.nanos.over(contests[0].nanos).spread("%.3f"), one.nanos.over(contests[1].nanos).spread("%.3f"),
				one.nanos.over(contests[2].nanos).spread("%.3f"), one.cpu.times(10).spread("%.0f"), one.allocs.spread("%.0f"))
		}
		r.table("contender\tµs each\t× by hand\t× same store\t× unfenced\tclient CPU, µs\tallocs", rows)
		r.atMost(fmt.Sprintf("transactions, %s, latchkey × by hand over the same store", db),
			contests[2].nanos.over(contests[1].nanos), 1.05)
		for _, one := range contests {
			one.crew.dismiss(env)
		}
	}
}

// openBank makes a database with the rows that the contenders change, and says how to connect. A server runs on the core.
func openBank(env testenv.TB, kind string, core int) (driver, url string) {
	env.Helper()
	switch kind {
	case "postgres":
		srv := testenv.Postgres(env)
		if core != anyCore { // its processes for connections inherit it
			if err := pinProcess(srv.Pid(), core); err != nil {
				env.Fatalf("%v", err)
			}
		}
		driver, url = "pgx", srv.URL("")
	case "sqlite":
		dir, err := os.MkdirTemp("", "latchkey-bench-")
		if err != nil {
			env.Fatalf("%v", err)
		}
		env.Cleanup(func() { _ = os.RemoveAll(dir) })
		driver = "sqlite"
		url = "file:" + filepath.Join(dir, "bank.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)"
	}
	db, err := sqlx.Connect(driver, url)
	if err != nil {
		env.Fatalf("%v", err)
	}
	defer db.Close()
	if err := latchkey.NewTxManager(db).EnsureFenceTable(context.Background()); err != nil {
		env.Fatalf("%v", err)
	}
	for _, query := range []string{
		"CREATE TABLE account (id bigint PRIMARY KEY, n bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO account WITH RECURSIVE ids(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id < %d) "+
			"SELECT id, 0 FROM ids", spreadKeys-1),
	} {
		if _, err := db.Exec(query); err != nil {
			env.Fatalf("%v", err)
		}
	}
	return driver, url
}

const addToAccount = `UPDATE account SET n = n + 1 WHERE id = ?`

// account is the row of an order: the orders of one goroutine go through all of them.
func account(id int64) int64 { return id % spreadKeys }

// inTransactions makes a contender of this table ready.
func inTransactions(j job, client *redis.Client) (locked, error) {
	db, err := sqlx.Connect(j.Driver, j.URL)
	if err != nil {
		return nil, err
	}
	switch j.Contender {
	case isTxByHand:
		return txByHand(client, db)
	case isTxHandle:
		return txUnderHandle(client, db), nil
	}
	var opts []latchkey.TxManagerOption
	if j.Contender == isTxFenced {
		opts = append(opts, latchkey.Fenced())
	}
	query := db.Rebind(addToAccount)
	m, locks := latchkey.NewTxManager(db, opts...), latchkey.New(redisstore.New(client))
	lock := locks.WithLock("order:#{param.id}", latchkey.Transactional(m))
	f := latchkey.Action(lock, func(ctx context.Context, p orderParam) error {
		p.visit.run()
		tx, _ := latchkey.TxFrom(ctx)
		_, err := tx.ExecContext(ctx, query, account(p.ID))
		return err
	})
	return func(ctx context.Context, id int64, v *visit) error { return f(ctx, orderParam{id, v}) }, nil
}

// txUnderHandle is what somebody writes who has latchkey's lock and no transaction manager.
func txUnderHandle(client *redis.Client, db *sqlx.DB) locked {
	locks, query := latchkey.New(redisstore.New(client)), db.Rebind(addToAccount)
	return func(ctx context.Context, id int64, v *visit) error {
		lease, err := locks.Acquire(ctx, orderKey(id))
		if err != nil {
			return err
		}
		defer func() { _ = lease.Release(ctx) }()
		return inTx(lease.Context(), db, query, id, v)
	}
}

// inTx is the transaction by hand.
func inTx(ctx context.Context, db *sqlx.DB, query string, id int64, v *visit) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	v.run()
	if _, err := tx.ExecContext(ctx, query, account(id)); err != nil {
		return err
	}
	return tx.Commit()
}

// txByHand is what somebody writes who needs no library.
func txByHand(client *redis.Client, db *sqlx.DB) (locked, error) {
	sha, err := client.ScriptLoad(context.Background(), compareAndDelete).Result()
	if err != nil {
		return nil, err
	}
	query := db.Rebind(addToAccount)
	return func(ctx context.Context, id int64, v *visit) error {
		key, owner := orderKey(id), rand.Text()
		ok, err := client.SetNX(ctx, key, owner, leaseTime).Result()
		if err != nil {
			return err
		}
		if !ok {
			return redislock.ErrNotObtained
		}
		defer func() { _ = client.EvalSha(ctx, sha, []string{key}, owner).Err() }()
		return inTx(ctx, db, query, id, v)
	}, nil
}
