//go:build unix

package recipes

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/glebarez/sqlite" // also the driver "sqlite" for bun
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"gorm.io/gorm"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// counter is the one row that the tests read and write, inside a transaction or outside any.
type counter struct {
	get func(ctx context.Context) (n int, err error)
	set func(ctx context.Context, n int) error
}

type work func(ctx context.Context, c counter) error

// library is one of those that the recipes are for, with its database.
type library struct {
	recipe  func(ctx context.Context, w work) error
	byHand  func(ctx context.Context, w work) error // the library's own transaction, without latchkey: the control
	outside counter                                 // not in a transaction
	inUse   func() int                              // connections
}

var schema = []string{"CREATE TABLE counter (n int NOT NULL CHECK (n < 1000))", "INSERT INTO counter VALUES (0)"}

const (
	read       = "SELECT n FROM counter"
	write      = "UPDATE counter SET n = ?"
	writePgx   = "UPDATE counter SET n = $1"
	sqliteOpts = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)"
)

// libraries runs the test with each library.
func libraries(t *testing.T, f func(t *testing.T, l library)) {
	for name, open := range map[string]func(*testing.T) library{"pgx": usePgx, "gorm": useGorm, "bun": useBun} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			f(t, l)
			if n := l.inUse(); n != 0 && !t.Failed() {
				t.Errorf("%d connections have leaked", n)
			}
		})
	}
}

func usePgx(t *testing.T) library {
	pool, err := pgxpool.New(t.Context(), testenv.SharedPostgres(t).URL(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, statement := range append([]string{
		"DROP TABLE IF EXISTS counter, latchkey_fence", latchkey.FenceSchema(latchkey.PostgreSQL),
	}, schema...) {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	in := func(w work) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { return w(ctx, pgxCounter(tx)) }
	}
	return library{
		recipe: func(ctx context.Context, w work) error { return InPgx(ctx, pool, in(w)) },
		byHand: func(ctx context.Context, w work) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return in(w)(ctx, tx) })
		},
		outside: pgxCounter(pool),
		inUse:   func() int { return int(pool.Stat().AcquiredConns()) },
	}
}

func pgxCounter(db interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
},
) counter {
	exec := latchkey.FenceWith(db.Exec)
	return counter{
		get: func(ctx context.Context) (n int, err error) { err = db.QueryRow(ctx, read).Scan(&n); return n, err },
		set: func(ctx context.Context, n int) error { _, err := exec(ctx, writePgx, n); return err },
	}
}

func useGorm(t *testing.T) library {
	db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "gorm.db")+sqliteOpts), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, pool)
	in := func(w work) func(context.Context, *gorm.DB) error {
		return func(ctx context.Context, tx *gorm.DB) error { return w(ctx, gormCounter(tx)) }
	}
	return library{
		recipe: func(ctx context.Context, w work) error { return InGorm(ctx, db, latchkey.SQLite, in(w)) },
		byHand: func(ctx context.Context, w work) error {
			return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return in(w)(ctx, tx) })
		},
		outside: gormCounter(db),
		inUse:   func() int { return pool.Stats().InUse },
	}
}

func gormCounter(db *gorm.DB) counter {
	return counter{
		get: func(ctx context.Context) (n int, err error) {
			err = db.WithContext(ctx).Raw(read).Scan(&n).Error
			return n, err
		},
		set: func(ctx context.Context, n int) error { return db.WithContext(ctx).Exec(write, n).Error },
	}
}

func useBun(t *testing.T) library {
	pool, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "bun.db")+sqliteOpts)
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, pool)
	db := bun.NewDB(pool, sqlitedialect.New())
	in := func(w work) func(context.Context, bun.Tx) error {
		return func(ctx context.Context, tx bun.Tx) error { return w(ctx, bunCounter(tx)) }
	}
	return library{
		recipe:  func(ctx context.Context, w work) error { return InBun(ctx, db, latchkey.SQLite, in(w)) },
		byHand:  func(ctx context.Context, w work) error { return db.RunInTx(ctx, nil, in(w)) },
		outside: bunCounter(db),
		inUse:   func() int { return pool.Stats().InUse },
	}
}

func bunCounter(db bun.IDB) counter {
	return counter{
		get: func(ctx context.Context) (n int, err error) { err = db.NewRaw(read).Scan(ctx, &n); return n, err },
		set: func(ctx context.Context, n int) error { _, err := db.NewRaw(write, n).Exec(ctx); return err },
	}
}

func prepare(t *testing.T, pool *sql.DB) {
	t.Helper()
	t.Cleanup(func() { _ = pool.Close() })
	for _, statement := range append([]string{latchkey.FenceSchema(latchkey.SQLite)}, schema...) {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
