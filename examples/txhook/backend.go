package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/examples/internal/servers"
)

// Backend is the Redis and the database of a run, with the run's tables in it.
type Backend struct {
	*servers.Servers

	Redis redis.UniversalClient // to delete locks with
	Till  *Till
}

func openBackend(ctx context.Context) (_ *Backend, err error) {
	s, err := servers.Open(ctx, "txhook")
	if err != nil {
		return nil, err
	}
	b := &Backend{Servers: s, Till: newTill(s.DB, s.Run)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.Redis, err = servers.DialRedis(s.RedisURL); err != nil {
		return nil, err
	}
	b.OnClose(b.Redis.Close)
	b.clean(b.Till.Drop)
	if err := b.Till.Create(ctx); err != nil {
		return nil, err
	}
	undo, err := b.Till.EnsureFence(ctx, b.Run)
	b.clean(undo)
	return b, err
}

// clean has Close call f with a context of its own.
func (b *Backend) clean(f func(context.Context) error) {
	b.OnClose(func() error {
		ctx, cancel := servers.CleanupContext()
		defer cancel()
		return f(ctx)
	})
}
