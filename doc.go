// Package latchkey runs functions under a distributed lock whose key comes from the call's arguments.
//
//	locks := latchkey.New(redisstore.New(client), latchkey.Namespace("shop"))
//	buy := latchkey.Func(locks.WithLock("sku:#{param.sku}", latchkey.Wait(3*time.Second)), shop.Buy)
//	receipt, err := buy(ctx, Order{SKU: "wine", Qty: 2})
//
// # The model
//
// A [Locks] makes locks in one [Store] and namespace. [Locks.WithLock] returns a [Decorator]: a key template and options.
// [Func] and its kin bind a decorator to a function and return one with the same signature. Each call of that one renders
// the template to a key, acquires the key's lock, runs the function, and releases the lock.
//
// What a caller holds is a [Lease]: keys, an owner that nobody else knows, and a deadline. It travels in the context that
// the function gets. Acquiring the same key again with that context enters the lease instead of waiting for it; the last
// one out releases. [Locks.Held] and [LeaseFrom] look for it. [Locks.Acquire] returns a lease directly, for work that does
// not fit one function.
//
// # Three times
//
// The wait ([Wait], [WaitForever]) is how long a caller queues for a busy lock. The lease ([RenewedLease], [LeaseFor]) is how
// long a hold lives unless it is renewed, and so how long a crash blocks the key. The op timeout ([OpTimeout]) is how long
// one exchange with the store may take.
//
// # Losing a lock
//
// A lease that is not renewed in time, or that the store gave to somebody else or forgot, is lost. The function's context
// is then cancelled, with a cause that matches [ErrLeaseLost]; the function decides what to do, and its error is joined with
// the loss. The local deadline counts from before the last request that the store confirmed was sent, so that the holder
// knows no later than anybody else can get in, by the less favourable of the monotonic and the wall clock. Between two looks
// at the context a function can't know: a process that was stopped wakes up past its lease and writes. No lock can
// prevent that; a system that compares fencing tokens ([Lease.Token]) can. See Martin Kleppmann, "How to do distributed
// locking" (2016).
//
// # Fairness
//
// In one process callers get their turn first come first served, and only one of them at a time asks the store. A lock goes
// from caller to caller inside the process at most 16 times, for at most 100 ms, before the next process in the store's
// queue gets it.
//
// # Transactions
//
// [NewTxManager] makes a manager over sqlx. [TxManager.InTx] runs a function in a transaction, [Transactional] has a
// decorator do so under its lock, and a lock that is taken inside a transaction is carried by it. In each case the lock is let
// go only when the transaction is over and the hooks ([AfterCommit] and its kin) have run: whoever gets it next reads what was
// committed. Over means that the database has answered COMMIT or ROLLBACK. Where ROLLBACK is not answered within five
// seconds, or a statement that the function has left behind still runs, it means that the connection was closed, without which
// nothing of the transaction can be committed; the database may still hold its rows for a while. If COMMIT is not answered, and
// how it ended can't be looked up, the lock is kept until the lease runs out.
//
// [InScope] does as much as it can for transactions of other libraries: it carries locks, runs hooks, raises fences and checks
// the lease before COMMIT. It can't look up the outcome of a COMMIT whose answer was lost, begin anew what fails at the fence,
// get a newer token from a store that has forgotten its counter, or limit on MariaDB how long a transaction stands still.
//
// COMMIT is sent only while the lease lasts for as long as it may take. With a lease shorter than twice [CommitTimeout] that
// is half of the lease; a fenced COMMIT may then outlast the lease, as its fence keeps others out. What remains without
// fencing is a holder that believes in its lease: a process that was stopped between that look and COMMIT, or a store that
// forgot the lock. With [Fenced], each transaction under the lock first raises the lock's row in the same database to its
// token, and none that was begun under an older token can be committed after that: no update is lost, whatever the store
// did. The same row tells how a COMMIT ended whose answer was lost; without it that is [ErrOutcomeUnknown].
//
// A fence covers the one database whose transactions raise it, and what is read and written in them. It does not cover what
// is read before the first of them, and no other system: hand [Lease.Token] to those, and have them refuse a smaller one.
//
// A database may end a transaction on its own account: MySQL after a deadlock or at a CREATE TABLE, SQLite when a write is
// interrupted. What the function does after that is never committed, whether it has seen the error or not. The call answers
// [ErrRollbackOnly], or [ErrOutcomeUnknown] where a part of it may have been committed before.
//
// # Errors
//
// [ErrBusy], [ErrKey], [ErrStore] and [ErrLeaseLost] are told apart by errors.Is, and nothing else is needed. The first three
// mean that the function did not run; a fenced transaction may also be busy with the fence row of an older one. With
// transactions there are [ErrFenced] and [ErrRollbackOnly], after which nothing has been left behind, [ErrOutcomeUnknown],
// after which nobody should call again blindly, and [ErrNoTx] and [ErrTxFinished] for hooks and handles in the wrong place.
//
// A wait that was ended by the caller's context also matches the context's cause; look for ErrBusy first, then for
// [context.Canceled] and [context.DeadlineExceeded].
package latchkey
