package servers

import (
	"context"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// OpenDatabase opens the database at url: postgres://…, or the path of a SQLite file.
func OpenDatabase(url string) (*sqlx.DB, error) {
	driver, dsn := "pgx", url
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		if strings.Contains(url, "://") {
			return nil, fmt.Errorf("DATABASE_URL: postgres://… or the path of a SQLite file, not %s…", url[:strings.Index(url, "://")+3])
		}
		// Writers queue for the file instead of failing: without a lock a run must go wrong, not stop.
		driver, dsn = "sqlite", url+"?_busy_timeout=20000&_journal_mode=WAL&_synchronous=NORMAL"
	}
	db, err := sqlx.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// Exec executes statements one after the other, and names the one that failed.
func Exec(ctx context.Context, db *sqlx.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%w, in %q", err, statement)
		}
	}
	return nil
}
