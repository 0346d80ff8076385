package latchkey

import (
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	defaultCommitTimeout = 5 * time.Second
	defaultConnTimeout   = 10 * time.Second
	defaultHookTimeout   = 10 * time.Second
	defaultFenceWait     = 10 * time.Second
	defaultFenceIdle     = time.Minute
	defaultLookup        = 10 * time.Second
)

// TxManager runs functions in transactions of one database. It is safe for concurrent use; a process needs one per
// database. Create it with [NewTxManager].
type TxManager struct {
	db        *sqlx.DB
	dialect   Dialect
	d         dialect
	defaults  txConfig
	hooks     hookConfig
	fence     fenceMode
	fenceWait time.Duration
	fenceIdle time.Duration
	lookup    time.Duration
	enders    enders

	settings mysqlSettings // MySQL
}

// NewTxManager returns a manager for the database. Options that concern one transaction, such as [Isolation], set the
// default for all of them. The database stays the caller's, to configure and to close.
//
// On MySQL and MariaDB a transaction takes four statements besides COMMIT, and one more with [Isolation] or [ReadOnly]: two
// set and restore the session, in which nothing is committed by itself meanwhile, and a savepoint begins the transaction and
// shows at the end that it is still there. On SQLite the manager takes the commit and the rollback hook of
// every connection that it uses, in place of any that the program has set, with modernc.org/sqlite and
// github.com/mattn/go-sqlite3. Through a driver without them it asks instead, and can't stop a prepared statement that is run
// again after the transaction was lost: the call then answers [ErrOutcomeUnknown].
//
// NewTxManager panics if the database is nil, its driver is none that it knows (see [DialectOf]) or an option is wrong, as
// these are mistakes in the program.
func NewTxManager(db *sqlx.DB, opts ...TxManagerOption) *TxManager {
	if db == nil || db.DB == nil {
		panic("latchkey: NewTxManager: the database is nil; pass what sqlx.Connect returned")
	}
	c := managerConfig{
		tx:    txConfig{commitTimeout: defaultCommitTimeout, connTimeout: defaultConnTimeout},
		hooks: hookConfig{timeout: defaultHookTimeout},
		fence: fenceConfig{wait: defaultFenceWait, idle: defaultFenceIdle, lookup: defaultLookup},
	}
	for i, o := range opts {
		if isNil(o) {
			panic(fmt.Sprintf("latchkey: NewTxManager: option %d is nil; leave it out", i+1))
		}
		o.applyManager(&c)
	}
	errs := append(append(c.errs, c.tx.errs...), c.fence.errs...)
	if c.dialect == "" {
		var err error
		if c.dialect, err = dialectOf(db.DriverName(), db.Driver()); err != nil {
			errs = append(errs, err)
		}
	}
	if c.tx.propagation != txJoin {
		errs = append(errs, errors.New("latchkey: NewTxManager: NewTransaction and Savepoint are for single calls; "+
			"pass them to InTx or Transactional"))
	}
	if err := errors.Join(errs...); err != nil {
		panic(err.Error())
	}
	return &TxManager{
		db: db, dialect: c.dialect, d: dialects[c.dialect], defaults: c.tx, hooks: c.hooks,
		enders: newEnders(), fence: c.fence.mode, fenceWait: c.fence.wait, fenceIdle: c.fence.idle, lookup: c.fence.lookup,
	}
}
