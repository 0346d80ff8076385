package quorumstore_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/quorumstore"
)

func ExampleNew() {
	env := testenv.Program()
	defer env.Close()
	var masters []redis.UniversalClient
	for range 3 {
		addr := testenv.Redis(env).Addr() // "redis-1:6379", "redis-2:6379", "redis-3:6379"
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		masters = append(masters, client)
	}
	locks := latchkey.New(quorumstore.New(masters))
	defer locks.Close()

	report := latchkey.Action0(locks.WithLock("nightly-report"), func(ctx context.Context) error {
		fmt.Println("under the lock:", locks.Held(ctx, "nightly-report"))
		return nil
	})
	fmt.Println(report(context.Background()))
	// Output:
	// under the lock: true
	// <nil>
}
