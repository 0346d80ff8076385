package recipes

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/latchkey-go/latchkey"
)

// InPgx runs work in a transaction of pgx.
func InPgx(ctx context.Context, pool *pgxpool.Pool, work func(context.Context, pgx.Tx) error) error {
	return latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return s.Run(ctx, latchkey.PostgreSQL, latchkey.FenceWith(tx.Exec), func() error { return work(ctx, tx) })
		})
	})
}
