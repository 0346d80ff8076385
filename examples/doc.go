// Package examples holds one small program per directory, each run from the root of the repository:
//
//	go run ./examples/NAME
//
// They need nothing installed: what they talk to is embedded, or given by REDIS_URL and DATABASE_URL. The directory recipes
// is no program but code to copy: transactions of pgx, gorm and bun under a lock.
package examples
