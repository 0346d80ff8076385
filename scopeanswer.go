package latchkey

import (
	"fmt"
	"reflect"
	"strings"
)

// ScopeDialect says what the database of the other library's transaction is, for a scope that does not tell it by
// [Scope.Fence] or [Scope.Run]. Where nothing says it, a COMMIT that the server has refused is [ErrOutcomeUnknown] as well.
func ScopeDialect(d Dialect) ScopeOption {
	return scopeOption(func(c *scopeConfig) {
		if _, ok := dialects[d]; !ok {
			c.errs = append(c.errs, fmt.Errorf("latchkey: ScopeDialect(%q): the dialects are %s, %s and %s", d, PostgreSQL, MySQL, SQLite))
			return
		}
		c.dialect = d
	})
}

// failed judges a function that did not succeed. Only what is certain is called rolled back: COMMIT can't have been sent, or
// the error is the server's own answer to it.
func (s *Scope) failed(err error) Outcome {
	switch s.sent.Load() {
	case 0:
		return OutcomeRolledBack
	case 1:
		s.t.mu.Lock()
		d, mixed := s.dialect, s.mixed
		s.t.mu.Unlock()
		if err != nil && !mixed && d.refusedCommit(err) {
			return OutcomeRolledBack
		}
	default: // the error is that of the last transaction, which says nothing about those before
	}
	return OutcomeUnknown
}

// speaks notes which database the scope's transaction is in.
func (s *Scope) speaks(d Dialect) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.mixed = s.mixed || s.dialect != "" && s.dialect != d
	s.dialect = d
}

// refusedCommit reports whether err is a server's answer to COMMIT, as its driver returned it, after which the transaction
// is certainly rolled back. What somebody has wrapped or joined it into may say anything.
func (d Dialect) refusedCommit(err error) bool {
	switch d {
	case PostgreSQL:
		// The server answers COMMIT with an error only after it has rolled back. The texts are pgx's and lib/pq's for a
		// transaction in which a statement had failed.
		switch err.Error() {
		case "commit unexpectedly resulted in rollback", "pq: Could not complete operation in a failed transaction",
			"unexpected command tag ROLLBACK", "pq: unexpected command tag ROLLBACK":
			return plain(err)
		}
		if !isType(err, "pgconn", "PgError") && !isType(err, "lib/pq", "Error") {
			return false
		}
		v := dialects[d].verdict(err)
		return v != verdictUnclear && v != verdictNotSent
	case MySQL:
		// After any other answer the transaction may still be open, on a connection whose next BEGIN commits it.
		return isType(err, "mysql", "MySQLError") && dialects[d].verdict(err) == verdictAborted
	default:
		// SQLite keeps a transaction open whose COMMIT it refuses. Some drivers roll it back then, others don't.
		return false
	}
}

// isType reports whether err itself is of the driver's type. Its package is not ours to import, and may be vendored.
func isType(err error, pkg, name string) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name() == name && strings.HasSuffix(t.PkgPath(), pkg)
}

// plain reports whether err wraps nothing.
func plain(err error) bool {
	switch err.(type) { //nolint:errorlint // it is about the error itself
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false
	}
	return true
}
