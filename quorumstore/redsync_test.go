package quorumstore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// bare returns redsync as it is used without latchkey, over its own pool.
func bare(t *testing.T, addrs []string) *redsync.Redsync {
	t.Helper()
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		pools = append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...)
}

// name is the key as redsync has to be told it.
const name = "latchkey:k"

func TestRedsyncAndLatchkeyExcludeEachOther(t *testing.T) {
	servers := masters(t, 3)
	locks, other := lock(t, open(t, addrs(servers))), bare(t, addrs(servers))

	lease := take(t, locks, "k")
	if err := other.NewMutex(name, redsync.WithTries(1)).Lock(); err == nil {
		t.Error("redsync got a lock that latchkey holds")
	}
	release(t, lease)

	m := other.NewMutex(name, redsync.WithTries(1), redsync.WithExpiry(time.Minute))
	if err := m.Lock(); err != nil {
		t.Fatal(err)
	}
	var busy *latchkey.BusyError
	if _, err := locks.Acquire(t.Context(), "k"); !errors.As(err, &busy) {
		t.Fatalf("err = %v, want ErrBusy", err)
	}
	if busy.RetryAfter <= 50*time.Second || busy.RetryAfter > time.Minute {
		t.Errorf("RetryAfter = %v, want what is left of a minute", busy.RetryAfter)
	}
	in := make(chan *latchkey.Lease, 1)
	go func() {
		next, err := locks.Acquire(t.Context(), "k", latchkey.Wait(limit))
		if err != nil {
			t.Error(err)
		}
		in <- next
	}()
	asked := servers[0].Commands(t)["evalsha"]
	eventually(t, "the waiter polls a holder that will not wake it", func() bool { return servers[0].Commands(t)["evalsha"] > asked+2 })
	if ok, err := m.Unlock(); !ok {
		t.Fatal(err)
	}
	if next := <-in; next != nil {
		release(t, next)
	}
}

// The control of the tests of left-overs: redsync by itself, in the same trouble, leaves the key for its whole expiry.
func TestRedsyncByItselfLeavesAStragglersKey(t *testing.T) {
	c := start(t, 3)
	m := bare(t, c.addrs()).NewMutex(name, redsync.WithTries(1), redsync.WithExpiry(time.Hour),
		redsync.WithTimeoutFactor(float64(100*time.Millisecond)/float64(time.Hour)))
	c.proxies[1].SwallowRequests(testenv.Matching(func(request []byte) bool {
		return bytes.Contains(bytes.ToLower(request), []byte("\r\nset\r\n"))
	}))
	if err := m.Lock(); err != nil {
		t.Fatal(err)
	}
	if ok, err := m.Unlock(); !ok {
		t.Fatal(err)
	}
	c.proxies[1].Heal()
	if answers := c.proxies[1].Replay(t); len(answers) == 0 {
		t.Fatal("void: nothing was swallowed")
	}
	if c.servers[1].Do(t, "GET", name) == nil {
		t.Error("no key was left: the tests of left-overs can't tell undo from none")
	}
}

// redsync's unlock of a mutex that was never locked deletes a key that holds an empty value.
func TestAnEmptyOwnerOwnsNothing(t *testing.T) {
	servers := masters(t, 3)
	store := open(t, addrs(servers))
	for _, s := range servers {
		s.Do(t, "SET", name, "")
	}
	for _, op := range []latchkey.Op{
		{Kind: latchkey.OpRelease}, {Kind: latchkey.OpRelease, Leave: true, Grant: time.Second},
		{Kind: latchkey.OpRenew, Lease: time.Minute}, {Kind: latchkey.OpToken, Tokens: 1},
	} {
		op.Key = name
		if got := do(store, op); got.OK || got.Err != nil {
			t.Errorf("%v: OK = %t, %v", op.Kind, got.OK, got.Err)
		}
	}
	if got := do(store, latchkey.Op{Kind: latchkey.OpAcquire, Key: name, Lease: time.Minute}); got.OK || !got.Final {
		t.Errorf("acquire: OK = %t, %v; want an error for good", got.OK, got.Err)
	}
	if n := holders(t, servers, ""); n != 3 {
		t.Errorf("%d of 3 masters still have the key", n)
	}
	// The control: redsync does delete it.
	if _, err := bare(t, addrs(servers)).NewMutex(name).Unlock(); err != nil {
		t.Fatal(err)
	}
	if n := holders(t, servers, ""); n != 0 {
		t.Error("void: redsync does not do what this test is about any more")
	}
}

// An expiry of half a millisecond is none at all for redsync's pool, or an error of the server.
func TestAFractionOfAMillisecondIsALease(t *testing.T) {
	servers := masters(t, 3)
	store := open(t, addrs(servers))
	for _, lease := range []time.Duration{1, 500 * time.Microsecond, 1500 * time.Microsecond} {
		op := do(store, latchkey.Op{Kind: latchkey.OpAcquire, Key: name, Owner: "lk:A", Lease: lease})
		if !op.OK {
			t.Errorf("lease of %v: %v", lease, op.Err)
		}
		nothingLeft(t, servers)
	}
}
