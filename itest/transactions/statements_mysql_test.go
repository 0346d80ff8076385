//go:build unix

package transactions

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// What a transaction takes on MariaDB besides its own statements, and that fencing adds one to that, too.
func TestStatementsOfATransactionOnMariaDB(t *testing.T) {
	const calls = 5
	d := newDatabase(t, "mariadb")
	sep := "?"
	if strings.Contains(d.url, "?") {
		sep = "&"
	}
	d.url += sep + "interpolateParams=true" // one request per statement
	seen := &statements{}
	db := seen.open(t, d)
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	plain := map[string]int{
		"SET @latchkey_autocommit": calls, "SAVEPOINT latchkey_begin": calls, "UPDATE account": calls,
		"RELEASE SAVEPOINT": calls, "COMMIT": calls, "SET autocommit": calls,
	}
	fenced := maps.Clone(plain)
	fenced["UPDATE latchkey_fence"] = calls
	for name, c := range map[string]struct {
		opts []latchkey.TxManagerOption
		want map[string]int
	}{"control: not fenced": {nil, plain}, "fenced": {[]latchkey.TxManagerOption{latchkey.Fenced()}, fenced}} {
		lock := locks.WithLock("account:#{param}", latchkey.Transactional(latchkey.NewTxManager(db, c.opts...)))
		call := latchkey.Action(lock, func(ctx context.Context, id string) error {
			tx, _ := latchkey.TxFrom(ctx)
			_, err := tx.ExecContext(ctx, "UPDATE account SET n = n + 1 WHERE id = ?", id)
			return err
		})
		for i := range calls + 1 {
			if i == 1 {
				seen.reset() // the first one has asked for the server's version and made the fence row
			}
			if err := call(t.Context(), "a"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got, _ := seen.reset(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %d calls took %v, want %v", name, calls, got, c.want)
		}
	}
}
