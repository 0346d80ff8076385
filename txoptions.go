package latchkey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// TxManagerOption is an option of [NewTxManager].
type TxManagerOption interface{ applyManager(c *managerConfig) }

// TxOption is an option of [TxManager.InTx] and [Transactional], and of [NewTxManager], where it sets the default of
// both. The later option wins.
type TxOption interface {
	TxManagerOption
	applyTx(c *txConfig)
}

// FenceOption is an option of [Fenced].
type FenceOption interface{ applyFence(c *fenceConfig) }

type managerConfig struct {
	tx      txConfig
	hooks   hookConfig
	fence   fenceConfig
	dialect Dialect
	errs    []error
}

type propagation uint8

const (
	txJoin propagation = iota
	txNew
	txSavepoint
)

// txConfig is how one transaction is run.
type txConfig struct {
	propagation   propagation
	isolation     sql.IsolationLevel
	readOnly      bool
	commitTimeout time.Duration
	commitSet     bool
	connTimeout   time.Duration
	allowStale    bool
	unfenced      bool
	errs          []error
}

type fenceConfig struct {
	mode               fenceMode
	wait, idle, lookup time.Duration
	errs               []error
}

type txOption func(*txConfig)

func (o txOption) applyTx(c *txConfig)           { o(c) }
func (o txOption) applyManager(c *managerConfig) { o(&c.tx) }

type managerOption func(*managerConfig)

func (o managerOption) applyManager(c *managerConfig) { o(c) }

type fenceOption func(*fenceConfig)

func (o fenceOption) applyFence(c *fenceConfig) { o(c) }

// NewTransaction begins a transaction of its own even inside another one: on another connection, with hooks of its own,
// committed or rolled back whatever becomes of the outer one. Without it a transaction inside another one joins it.
func NewTransaction() TxOption {
	return txOption(func(c *txConfig) { c.propagation = txNew })
}

// Savepoint runs a transaction inside another one as a part of it that can fail alone: it is rolled back to a savepoint, its
// AfterRollback hooks run and its other hooks are dropped. Locks taken in it are kept to the end of the outer one, as its
// reads may have shaped what comes after. Outside a transaction it begins one.
func Savepoint() TxOption {
	return txOption(func(c *txConfig) { c.propagation = txSavepoint })
}

// Isolation sets the isolation level. Without it the database's default holds.
func Isolation(level sql.IsolationLevel) TxOption {
	return txOption(func(c *txConfig) { c.isolation = level })
}

// ReadOnly begins a read-only transaction. It raises no fence: it has no writes to keep out.
func ReadOnly() TxOption {
	return txOption(func(c *txConfig) { c.readOnly = true })
}

// CommitTimeout bounds how long the database may take to answer COMMIT; after that the outcome is looked up or unknown.
// Under a lock, COMMIT is sent only if the lease lasts for so long, after a renewal if need be; otherwise the
// transaction is rolled back. The default is five seconds, or half of the lease if that is shorter.
func CommitTimeout(d time.Duration) TxOption {
	return txOption(func(c *txConfig) {
		if c.positive("CommitTimeout", d) {
			c.commitTimeout, c.commitSet = d, true
		}
	})
}

// ConnTimeout bounds how long a transaction waits for a connection and for BEGIN, ten seconds unless set. The caller's
// context may end the wait earlier.
func ConnTimeout(d time.Duration) TxOption {
	return txOption(func(c *txConfig) {
		if c.positive("ConnTimeout", d) {
			c.connTimeout = d
		}
	})
}

// AllowStaleSnapshot lets locks be taken inside a transaction that reads from a snapshot which is older than they are:
// under REPEATABLE READ or SERIALIZABLE, once a statement ran. What the transaction reads under such a lock may be older than
// what its last holder committed.
func AllowStaleSnapshot() StaleOption { return staleOption{} }

// StaleOption is what [AllowStaleSnapshot] returns: an option of transactions and of scopes.
type StaleOption interface {
	TxOption
	ScopeOption
}

type staleOption struct{}

func (staleOption) applyTx(c *txConfig)           { c.allowStale = true }
func (staleOption) applyManager(c *managerConfig) { c.tx.allowStale = true }
func (staleOption) applyScope(c *scopeConfig)     { c.tx.allowStale = true }

// WithoutFence begins a transaction of a fenced manager without raising fences: for one that writes nothing that the
// lock guards, such as a log that is to be kept when the outer transaction is rolled back. Only transactions with this
// option, and read-only ones, can join it: one that is to be fenced is refused.
func WithoutFence() TxOption {
	return txOption(func(c *txConfig) { c.unfenced = true })
}

// DialectOf says what kind of database it is, for drivers whose name does not tell.
func DialectOf(d Dialect) TxManagerOption {
	return managerOption(func(c *managerConfig) {
		if _, ok := dialects[d]; !ok {
			c.errs = append(c.errs, fmt.Errorf("latchkey: DialectOf(%q): the dialects are %s, %s and %s", d, PostgreSQL, MySQL, SQLite))
			return
		}
		c.dialect = d
	})
}

// OnHookError has f hear the errors and panics of hooks that ran after the end of a transaction. They change nothing else.
func OnHookError(f func(ctx context.Context, err error)) TxManagerOption {
	return managerOption(func(c *managerConfig) {
		if f == nil {
			c.errs = append(c.errs, errors.New("latchkey: OnHookError(nil): leave the option out, or pass a function"))
			return
		}
		c.hooks.failed = f
	})
}

// HookTimeout bounds the context of each hook after the end of a transaction, ten seconds unless set. A hook that does not
// listen to its context goes on and holds its caller up; but from the bound on the locks are not renewed any more.
func HookTimeout(d time.Duration) TxManagerOption {
	return managerOption(func(c *managerConfig) {
		if d <= 0 {
			c.errs = append(c.errs, fmt.Errorf("latchkey: HookTimeout(%v): the bound must be positive", d))
			return
		}
		c.hooks.timeout = d
	})
}

// Fenced has every transaction under a lock raise the lock's row in the table latchkey_fence as its first statement: a
// holder that lost its lease, without knowing it yet, can't commit once a newer one has raised the row; it gets
// [ErrFenced]. The table must exist: [TxManager.EnsureFenceTable].
//
// The tokens are those of the lock's store unless [DatabaseTokens] is given. A transaction waits for the row of an older
// holder's transaction no longer than [FenceWait] and gets [ErrBusy] then.
func Fenced(opts ...FenceOption) TxManagerOption {
	return managerOption(func(c *managerConfig) {
		if c.fence.mode == fenceOff {
			c.fence.mode = fenceStore
		}
		for i, o := range opts {
			if isNil(o) {
				c.errs = append(c.errs, fmt.Errorf("latchkey: Fenced: option %d is nil; leave it out", i+1))
				continue
			}
			o.applyFence(&c.fence)
		}
	})
}

// DatabaseTokens has the database mint the fencing tokens, for stores that mint none or are not trusted to remember them:
// one statement more, after the lock was acquired and before the first transaction under it. What the function has read
// before that transaction is not fenced.
func DatabaseTokens() FenceOption {
	return fenceOption(func(c *fenceConfig) { c.mode = fenceDatabase })
}

// FenceWait bounds how long a transaction waits for the fence row that an older holder's transaction has raised, ten
// seconds unless set. On PostgreSQL and MySQL it bounds every wait for a lock in the transaction.
func FenceWait(d time.Duration) FenceOption {
	return fenceOption(func(c *fenceConfig) {
		if c.positive("FenceWait", d) {
			c.wait = d
		}
	})
}

// FenceIdle bounds how long a fenced transaction may stand still between two statements before the server ends it, so that a
// process that was stopped there does not block the next holder for longer: one minute unless set. PostgreSQL and MariaDB
// have such a bound, MariaDB in whole seconds and not for [InScope]; on MySQL the connection has to be closed by other means. A
// process that was stopped in the middle of reading a result does not stand still for the server, which waits until
// the connection breaks: on PostgreSQL that is for tcp_user_timeout or statement_timeout to bound.
func FenceIdle(d time.Duration) FenceOption {
	return fenceOption(func(c *fenceConfig) {
		if c.positive("FenceIdle", d) {
			c.idle = d
		}
	})
}

// LookupTimeout bounds how long the outcome of a COMMIT is looked up whose answer was lost, ten seconds unless set. The
// lock is held and renewed meanwhile.
func LookupTimeout(d time.Duration) FenceOption {
	return fenceOption(func(c *fenceConfig) {
		if c.positive("LookupTimeout", d) {
			c.lookup = d
		}
	})
}

func (c *txConfig) positive(option string, d time.Duration) bool {
	if d <= 0 {
		c.errs = append(c.errs, fmt.Errorf("latchkey: %s(%v): the bound must be positive", option, d))
	}
	return d > 0
}

func (c *fenceConfig) positive(option string, d time.Duration) bool {
	if d <= 0 {
		c.errs = append(c.errs, fmt.Errorf("latchkey: %s(%v): the bound must be positive", option, d))
	}
	return d > 0
}
