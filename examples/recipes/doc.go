// Package recipes puts transactions of other libraries under a lock: pgx without database/sql, gorm and bun. They begin and
// commit as ever; latchkey makes sure that the lock is let go after COMMIT was answered, runs the hooks there, and raises the
// fence as the transaction's first statement.
//
// Each recipe is one function of seven lines, to copy and adapt. Under a decorator it looks like this:
//
//	withdraw := latchkey.Action(locks.WithLock("account:#{param.id}"),
//		func(ctx context.Context, w Withdrawal) error {
//			return recipes.InPgx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { … })
//		})
//
// A recipe returns the library's error as it is. latchkey takes it for "rolled back" if COMMIT was not sent, or if PostgreSQL has
// refused it; for anything else nobody knows how COMMIT ended, and the error matches [latchkey.ErrOutcomeUnknown].
//
// The table of the fence is made once, by a migration or at the start, with [latchkey.FenceSchema]. For sqlx and
// database/sql there is no need of a recipe: see [latchkey.Transactional].
package recipes
