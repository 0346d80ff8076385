//go:build unix

package itest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// patience is how long a test waits for an event that has to come. It is generous: running out of it is a failure.
const patience = time.Minute

// service is latchkey as one process of an application has it. Two of them in one test share nothing, as little as two
// processes do.
type service struct {
	*latchkey.Locks
	client redis.UniversalClient
	events *events
}

func connect(t testenv.TB, addr string, opts ...latchkey.LocksOption) *service {
	t.Helper()
	return connectBy(t, &redis.Options{Addr: addr}, plain, opts...)
}

// plain is a store as it is.
func plain(s latchkey.Store) latchkey.Store { return s }

// connectBy is connect with the client's options and a store around the store, which may be broken on purpose.
func connectBy(
	t testenv.TB, o *redis.Options, around func(latchkey.Store) latchkey.Store, opts ...latchkey.LocksOption,
) *service {
	t.Helper()
	return connectOver(t, redis.NewClient(o), around, opts...)
}

// connectOver is connectBy with a client of any kind, which it closes.
func connectOver(
	t testenv.TB, client redis.UniversalClient, around func(latchkey.Store) latchkey.Store, opts ...latchkey.LocksOption,
) *service {
	t.Helper()
	s := &service{client: client, events: newEvents()}
	s.Locks = latchkey.New(around(redisstore.New(s.client)), append([]latchkey.LocksOption{latchkey.Observe(s.events)}, opts...)...)
	t.Cleanup(func() {
		s.Close()
		_ = s.client.Close()
	})
	return s
}

// take acquires a key that has to be free soon, and releases it with the test if the test does not.
func (s *service) take(t testenv.TB, key string, opts ...latchkey.HoldOption) *latchkey.Lease {
	t.Helper()
	return s.takeIn(t, context.Background(), key, opts...)
}

//nolint:revive // a test comes first
func (s *service) takeIn(t testenv.TB, ctx context.Context, key string, opts ...latchkey.HoldOption) *latchkey.Lease {
	t.Helper()
	lease, err := s.Acquire(ctx, key, append([]latchkey.HoldOption{latchkey.Wait(patience)}, opts...)...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

func release(t testenv.TB, lease *latchkey.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatalf("Release(%q): %v", lease.Key(), err)
	}
}

// full is a key as the server has it.
func full(key string) string { return "latchkey:" + key }

// queueOf and counterOf are where the server keeps those who wait for a key, and its last fencing token.
func queueOf(key string) string   { return "{" + full(key) + "}:q" }
func counterOf(key string) string { return "{" + full(key) + "}:t" }

// sight is a key as the server sees it at one moment of its own clock.
type sight struct {
	owner string        // empty: nobody
	left  time.Duration // of the lease
	at    time.Time
}

// end is when the lease ends, by the server's clock.
func (s sight) end() time.Time { return s.at.Add(s.left) }

const lookScript = `local t = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), t[1], t[2]}`

func look(t testenv.TB, srv *testenv.Server, key string) sight {
	t.Helper()
	reply, ok := srv.Do(t, "EVAL", lookScript, "1", full(key)).([]any)
	if !ok || len(reply) != 4 {
		t.Fatalf("the server answered %v", reply)
	}
	s := sight{owner: fmt.Sprint(reply[0]), at: time.Unix(number(t, reply[2]), number(t, reply[3])*1000)}
	if s.owner != "" {
		s.left = time.Duration(number(t, reply[1])) * time.Millisecond
	}
	return s
}

func number(t testenv.TB, v any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		t.Fatalf("the server answered %v where a number should be", v)
	}
	return n
}

// abreast runs subtests side by side, all of them: they wait more than they work.
func abreast(t *testing.T, subtests map[string]func(t *testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, f := range subtests {
		all.Go(func() { t.Run(name, f) })
	}
	all.Wait()
}

// eventually waits for something that tells nobody when it happens: it asks until cond says yes.
func eventually(t testenv.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		<-time.After(time.Millisecond)
	}
}

// hear waits for a value from a channel.
func hear[T any](t testenv.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("after %v still not: %s", patience, what)
	}
	return v
}

// nothingLeft waits until the server has no keys: what was given up is taken back in the background.
func nothingLeft(t testenv.TB, srv *testenv.Server) {
	t.Helper()
	var keys []string
	for end := time.Now().Add(patience); ; {
		if keys = srv.Keys(t); len(keys) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v the server still has %s", patience, strings.Join(keys, " "))
		}
	}
}

// events is an observer that counts, and that a test can wait for.
type events struct {
	mu     sync.Mutex
	counts map[latchkey.EventKind]int
	errs   map[latchkey.EventKind]error // of the last one
	news   chan struct{}                // closed at the next event; nil: nobody waits for it
}

func newEvents() *events {
	return &events{counts: make(map[latchkey.EventKind]int), errs: make(map[latchkey.EventKind]error)}
}

// Observe implements [latchkey.Observer].
func (e *events) Observe(_ context.Context, ev latchkey.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[ev.Kind]++
	e.errs[ev.Kind] = ev.Err
	if e.news != nil {
		close(e.news)
		e.news = nil
	}
}

func (e *events) count(kind latchkey.EventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[kind]
}

// err is what the last event of a kind said was wrong.
func (e *events) err(kind latchkey.EventKind) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errs[kind]
}

// await returns once there have been n events of a kind.
func (e *events) await(t testenv.TB, kind latchkey.EventKind, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		e.mu.Lock()
		if e.news == nil {
			e.news = make(chan struct{})
		}
		count, news := e.counts[kind], e.news
		e.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("after %v still only %d of %d events %q", patience, count, n, kind)
		}
	}
}
