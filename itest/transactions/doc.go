// Package transactions tests latchkey's transactions on real databases: PostgreSQL, MariaDB and SQLite.
package transactions
