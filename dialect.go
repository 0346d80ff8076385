package latchkey

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
)

// Dialect is the kind of a database: how its fence row is raised and its errors are read.
type Dialect string

// The dialects that transactions know.
const (
	PostgreSQL Dialect = "postgresql"
	// MySQL is MariaDB as well.
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// dialect is what differs between databases.
type dialect interface {
	// schema is the DDL of the fence table.
	schema() string
	// raise is the statement that raises the fence row, with its arguments. One affected row says that it was.
	raise(f *fenceRow) (query string, args []any)
	// mint is the statement that raises the row to a token of the database's own and returns it.
	mint(resource, holder string) (query string, args []any)
	// prepare makes a row that is missing before a transaction begins; "" if raise makes it.
	prepare(resource string) (query string, args []any)
	// lookup reads a row, waiting for whatever transaction is about to write it.
	lookup(resource string) (query string, args []any)
	// prune deletes rows that were not raised for some seconds.
	prune() string
	// snapshot asks an open transaction whether its reads all see the same moment, and whether the database refuses a
	// write that is based on an older one.
	snapshot() string
	// verdict reads the driver's error.
	verdict(err error) verdict
	// commitVerdict reads the error of COMMIT: it must be certain that nothing was committed.
	commitVerdict(err error) verdict
}

// verdict is what an error of the database says.
type verdict uint8

const (
	// verdictUnclear: the statement may have been carried out.
	verdictUnclear verdict = iota
	// verdictNotSent: the statement never left.
	verdictNotSent
	// verdictRefused: the server answered that it did nothing.
	verdictRefused
	// verdictAborted: like verdictRefused, and the transaction is gone; the same again may work.
	verdictAborted
	// verdictLocked: like verdictRefused; somebody else has the row.
	verdictLocked
	// verdictNoTable: like verdictRefused; there is no such table.
	verdictNoTable
)

var dialects = map[Dialect]dialect{PostgreSQL: postgresDialect{}, MySQL: mysqlDialect{}, SQLite: sqliteDialect{}}

// dialectOf tells a database by its driver: by the name it was opened with, else by the package of the driver's type.
func dialectOf(name string, d driver.Driver) (Dialect, error) {
	pkg := ""
	if t := reflect.TypeOf(d); t != nil {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		pkg = t.PkgPath()
	}
	for _, text := range []string{name, pkg} {
		text = strings.ToLower(text)
		for _, k := range []struct {
			part string
			is   Dialect
		}{
			{"pgx", PostgreSQL}, {"postgres", PostgreSQL}, {"lib/pq", PostgreSQL},
			{"mysql", MySQL}, {"mariadb", MySQL}, {"sqlite", SQLite},
		} {
			if strings.Contains(text, k.part) {
				return k.is, nil
			}
		}
	}
	return "", fmt.Errorf("latchkey: NewTxManager: driver %q (%s) is not known; say what the database is with "+
		"DialectOf(latchkey.PostgreSQL), DialectOf(latchkey.MySQL) or DialectOf(latchkey.SQLite)", name, pkg)
}
