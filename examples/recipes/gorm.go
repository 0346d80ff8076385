package recipes

import (
	"context"

	"gorm.io/gorm"

	"github.com/latchkey-go/latchkey"
)

// InGorm runs work in a transaction of gorm, on a database of the dialect.
func InGorm(ctx context.Context, db *gorm.DB, dialect latchkey.Dialect, work func(context.Context, *gorm.DB) error) error {
	return latchkey.InScope(ctx, func(ctx context.Context, s *latchkey.Scope) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			return s.Run(ctx, dialect, latchkey.FenceOn(tx.Statement.ConnPool), func() error { return work(ctx, tx) })
		})
	})
}
