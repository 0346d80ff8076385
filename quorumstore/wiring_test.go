package quorumstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/quorumstore"
)

func TestMistakesInTheWiringNameTheFix(t *testing.T) {
	var clients []redis.UniversalClient
	for range 3 {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	with := func(c redis.UniversalClient) []redis.UniversalClient {
		return []redis.UniversalClient{clients[0], clients[1], c}
	}
	for name, c := range map[string]struct {
		wire func()
		want string
	}{
		"none":        {func() { quorumstore.New(nil) }, "use redisstore for one"},
		"two":         {func() { quorumstore.New(clients[:2]) }, "pass three or five"},
		"nil":         {func() { quorumstore.New(with(nil)) }, "master 3 is nil"},
		"nil client":  {func() { quorumstore.New(with((*redis.Client)(nil))) }, "master 3 is nil"},
		"twice":       {func() { quorumstore.New(with(clients[0])) }, "master 3 is given twice"},
		"ring":        {func() { quorumstore.New(with(ring)) }, "redis.Ring"},
		"nil option":  {func() { quorumstore.New(clients, nil) }, "leave it out"},
		"no patience": {func() { quorumstore.MasterTimeout(time.Microsecond) }, "at least a millisecond"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, c.want) {
					t.Errorf("panic %q does not say %q", msg, c.want)
				}
			}()
			c.wire()
		})
	}
}

func TestCapabilities(t *testing.T) {
	got := open(t, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}).Capabilities()
	if want := (latchkey.Capabilities{Hints: true, Tokens: true, Bars: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
