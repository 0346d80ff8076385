//go:build unix

package transactions

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// master is one of two masters that know nothing of each other. stop has it stand still, as one that was cut off does for all
// but its own holder.
type master struct {
	locks        *latchkey.Locks
	stop, resume func()
}

// minters are masters of which a test says the tokens.
func minters(t *testing.T, token int64) (one, two master) {
	t.Helper()
	none := func() {}
	return master{latchkey.New(newMinter(token)), none, none}, master{latchkey.New(newMinter(token)), none, none}
}

// redises are two servers whose counters have come to the same number, which is ahead of their clocks.
func redises(t *testing.T, token int64) (one, two master) {
	t.Helper()
	var both [2]master
	for i := range both {
		srv := testenv.Redis(t)
		client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		srv.Do(t, "SET", "{latchkey:k}:t", strconv.FormatInt(token-1, 10))
		locks := latchkey.New(redisstore.New(client))
		t.Cleanup(locks.Close)
		both[i] = master{locks, func() { srv.Pause(t) }, func() { srv.Resume(t) }}
	}
	return both[0], both[1]
}

// Two masters, neither of which knows of the other, give the lock to one holder each, with equal tokens.
func TestEqualTokensOfTwoMasters(t *testing.T) {
	const token = 1 << 60
	for name, masters := range map[string]func(*testing.T, int64) (one, two master){"minters": minters, "Redis": redises} {
		t.Run(name, func(t *testing.T) {
			databases(t, func(t *testing.T, d database) {
				db := d.open(t, 0)
				m := latchkey.NewTxManager(db, latchkey.Fenced())
				one, two := masters(t, token)
				first, err := one.locks.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				defer first.Release(context.WithoutCancel(t.Context()))
				var read int
				if err := m.InTx(first.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
					return tx.GetContext(ctx, &read, "SELECT n FROM account WHERE id = 'a'")
				}); err != nil {
					t.Fatal(err)
				}
				if got := fenceToken(t, d); got != token {
					t.Fatalf("the first one has token %d", got)
				}
				// The same token again, by the same holder: fine.
				if err := m.InTx(first.Context(), func(context.Context, *latchkey.Tx) error { return nil }); err != nil {
					t.Errorf("a second transaction under the lease: %v", err)
				}
				one.stop()
				// By another one, whose function has run already: refused.
				late, err := two.locks.Acquire(t.Context(), "k", latchkey.MintToken())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := late.Token(t.Context()); got != token || err != nil {
					t.Fatalf("the other master's holder has token %d (%v): this run shows nothing", got, err)
				}
				if err := m.InTx(late.Context(), func(context.Context, *latchkey.Tx) error { return nil }); !errors.Is(err, latchkey.ErrFenced) {
					t.Errorf("the other master's holder with an equal token: %v, want ErrFenced", err)
				}
				_ = late.Release(t.Context())
				// By another one that has only just begun: gets a newer token, and then the first one is fenced off.
				if err := latchkey.Action(two.locks.WithLock("k", latchkey.Transactional(m)), func(ctx context.Context, _ string) error {
					tx, _ := latchkey.TxFrom(ctx)
					return increment(ctx, tx, "a")
				})(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				one.resume()
				write := func(opts ...latchkey.TxOption) error {
					return m.InTx(first.Context(), func(ctx context.Context, tx *latchkey.Tx) error {
						_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = 'a'"), read)
						return err
					}, opts...)
				}
				if err := write(); !errors.Is(err, latchkey.ErrFenced) || errors.Is(err, latchkey.ErrLeaseLost) || value(t, db, "a") != 1 {
					t.Errorf("the first holder: %v, want ErrFenced; the account has %d", err, value(t, db, "a"))
				}
				if err := write(latchkey.WithoutFence()); err != nil || value(t, db, "a") != 0 {
					t.Errorf("control: without a fence: %v, and the account has %d, want 0: what the newer holder wrote is lost",
						err, value(t, db, "a"))
				}
			})
		})
	}
}
