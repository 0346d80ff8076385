package recipes

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/latchkey-go/latchkey"
)

// InBun runs work in a transaction of bun, on a database of the dialect.
func InBun(ctx context.Context, db *bun.DB, dialect latchkey.Dialect, work func(context.Context, bun.Tx) error) error {
	return latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
		return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			return s.Run(ctx, dialect, latchkey.FenceOn(tx), func() error { return work(ctx, tx) })
		})
	})
}
