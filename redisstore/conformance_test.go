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
	for name, opts := range map[string][]redisstore.Option{
		"keys as they are":          nil,
		"other names":               {redisstore.KeyName(func(key string) string { return key + "-lock" })},
		"other names with hash tag": {redisstore.KeyName(func(key string) string { return "mutex:{" + key + "}" })},
	} {
		t.Run(name, func(t *testing.T) {
			locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) {
				return redisstore.New(client(t, srv.Addr()), opts...), redisstore.New(client(t, srv.Addr()), opts...)
			})
		})
	}
}

func TestClusterConforms(t *testing.T) {
	addrs := testenv.Cluster(t, 3, false).Addrs()
	open := func(t testenv.TB) latchkey.Store {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		t.Cleanup(func() { _ = c.Close() })
		return redisstore.New(c)
	}
	locktest.Conformance(t, func(t *testing.T) (a, b latchkey.Store) { return open(t), open(t) })
}

func TestKeysOfALockAreInOneSlot(t *testing.T) {
	for name, rename := range map[string]func(string) string{
		"plain":    func(key string) string { return "lock-" + key },
		"hash tag": func(key string) string { return "{" + key + "}:lock" },
		"same":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t, testenv.Config("cluster-enabled", "yes"))
			slots := make(map[any]string)
			var opts []redisstore.Option
			if rename != nil {
				opts = append(opts, redisstore.KeyName(rename))
			}
			for _, key := range redisstore.Names("shop:k", opts...) {
				slots[srv.Do(t, "CLUSTER", "KEYSLOT", key)] = key
			}
			if len(slots) != 1 {
				t.Errorf("one lock's keys are in %d slots: %v", len(slots), slots)
			}
		})
	}
}
