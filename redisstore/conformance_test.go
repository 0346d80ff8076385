//go:build unix

package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/redisstore"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }

func client(t testenv.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRedisConforms(t *testing.T) {
	srv := testenv.SharedRedis(t)
	locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) {
		return redisstore.New(client(t, srv.Addr())), redisstore.New(client(t, srv.Addr()))
	})
}
