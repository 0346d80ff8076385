//go:build unix

package transactions

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// database is a new, empty database on one of the servers.
type database struct {
	kind   string
	driver string
	url    string
	server *testenv.Database // nil: SQLite
	name   string
}

var accounts = []string{"a", "b", "c", "d", "e", "f"}

// mariadbDetects is a MariaDB whose sessions refuse a write that is based on an older snapshot, with error 1020.
const mariadbDetects = "mariadb with innodb_snapshot_isolation"

var kinds = []string{"postgres", "mariadb", "sqlite"}

// databases runs the test once per kind of database.
func databases(t *testing.T, f func(t *testing.T, d database)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { f(t, newDatabase(t, kind)) })
	}
}

// The driver writes of every connection that is cut.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) } //nolint:gochecknoinits // before the first connection, in children too

var created atomic.Int64

func newDatabase(t *testing.T, kind string) database {
	t.Helper()
	name := fmt.Sprintf("test%d", created.Add(1))
	d := database{kind: kind, name: name}
	detects := kind == mariadbDetects
	if detects {
		d.kind = "mariadb"
	}
	switch d.kind {
	case "postgres":
		d.server, d.driver = testenv.SharedPostgres(t), "pgx"
	case "mariadb":
		d.server, d.driver = testenv.SharedMariaDB(t), "mysql"
	case "sqlite":
		d.driver = "sqlite"
		d.url = "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)"
	}
	if d.server != nil {
		d.url = d.server.URL(name)
		if detects {
			d.url += "&innodb_snapshot_isolation=ON"
		}
		admin := sqlx.MustConnect(d.driver, d.server.URL(""))
		defer admin.Close()
		admin.MustExec("CREATE DATABASE " + name)
	}
	db := d.open(t, 0)
	if err := latchkey.NewTxManager(db).EnsureFenceTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.MustExec("CREATE TABLE account (id varchar(20) PRIMARY KEY, n bigint NOT NULL)")
	for _, id := range accounts {
		db.MustExec("INSERT INTO account VALUES ('" + id + "', 0)")
	}
	return d
}

// open connects with a pool of at most n connections, 0 for any number. The test fails if one is still in use at its end.
func (d database) open(t *testing.T, n int) *sqlx.DB {
	t.Helper()
	return openURL(t, d.driver, d.url, n)
}

func openURL(t *testing.T, driver, url string, n int) *sqlx.DB {
	t.Helper()
	db := sqlx.MustConnect(driver, url)
	db.SetMaxOpenConns(n)
	t.Cleanup(func() {
		if used := db.Stats().InUse; used != 0 && !t.Failed() {
			t.Errorf("%d connections have leaked", used)
		}
		_ = db.Close()
	})
	return db
}

// value reads an account outside any transaction.
func value(t *testing.T, db *sqlx.DB, id string) int {
	t.Helper()
	var n int
	if err := db.GetContext(context.WithoutCancel(t.Context()), &n, db.Rebind("SELECT n FROM account WHERE id = ?"), id); err != nil {
		t.Fatal(err)
	}
	return n
}

// add changes an account by a blind write.
func add(ctx context.Context, tx *latchkey.Tx, id string, by int) error {
	_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = n + ? WHERE id = ?"), by, id)
	return err
}

// increment is the read-modify-write that loses updates without a lock.
func increment(ctx context.Context, tx *latchkey.Tx, id string) error {
	var n int
	if err := tx.GetContext(ctx, &n, tx.Rebind("SELECT n FROM account WHERE id = ?"), id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = ?"), n+1, id)
	return err
}
