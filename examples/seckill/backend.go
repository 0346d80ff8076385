package main

import (
	"context"
	"errors"

	"github.com/latchkey-go/latchkey/examples/internal/servers"
)

// Backend is the Redis and the database that all the shops of a run share, with the run's tables in it.
type Backend struct {
	*servers.Servers

	Ledger *Ledger
}

// openBackend reaches the servers, real ones or embedded ones, and makes the tables.
func openBackend(ctx context.Context) (*Backend, error) {
	s, err := servers.Open(ctx, "seckill")
	if err != nil {
		return nil, err
	}
	b := &Backend{Servers: s, Ledger: newLedger(s.DB, s.Run)}
	b.OnClose(func() error {
		ctx, cancel := servers.CleanupContext()
		defer cancel()
		return b.Ledger.Drop(ctx)
	})
	if err := b.Ledger.Create(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}
