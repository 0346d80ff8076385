//go:build unix

package itest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

const (
	replyLease = 3 * time.Second // a lock that is left behind is still there when the call is over
	replyWait  = replyLease / 3
)

// unanswered is a request that the server carries out and whose answer is cut off.
type unanswered struct {
	name   string
	asks   string
	kinds  []string // of what asks again
	keys   []string
	opts   []latchkey.DecoratorOption
	inside bool // the function runs by then
}

var (
	toAcquire          = []string{acquires, lists}
	waiting            = []latchkey.DecoratorOption{latchkey.Wait(replyWait)}
	minting            = []latchkey.DecoratorOption{latchkey.MintToken()}
	unansweredAcquire  = unanswered{name: "acquire", asks: askAcquire, kinds: toAcquire, keys: []string{"one"}}
	unansweredRenewal  = unanswered{name: "renew", asks: askRenew, kinds: []string{renews}, keys: []string{"one"}, inside: true}
	unansweredRelease  = unanswered{name: "release", asks: askRelease, kinds: []string{releases, leaves}, keys: []string{"one"}, inside: true}
	unansweredRequests = []unanswered{
		unansweredAcquire,
		{name: "acquire, ready to wait", asks: askAcquire, kinds: toAcquire, keys: []string{"one"}, opts: waiting},
		{name: "acquire with a token", asks: askAcquire, kinds: toAcquire, keys: []string{"one"}, opts: minting},
		{name: "acquire a list", asks: askList, kinds: toAcquire, keys: []string{"one", "two", "three"}},
		{name: "acquire a list, ready to wait", asks: askList, kinds: toAcquire, keys: []string{"one", "two", "three"}, opts: waiting},
		unansweredRenewal,
		unansweredRelease,
	}
)

// aftermath is what became of a call one of whose requests was not answered.
type aftermath struct {
	ran    bool
	err    error    // of the call
	letGo  error    // what the observer heard of the release
	owners []string // who has had the keys, as the server saw it
	tried  int      // how often the server was asked for what was not answered at first
	left   []string // the keys that were held when the call was over
}

// unanswer makes a call, and cuts off the answer to one of its requests.
func unanswer(t *testing.T, u unanswered, around func(latchkey.Store) latchkey.Store, hooks ...redis.Hook) (a aftermath) {
	t.Helper()
	srv := testenv.Redis(t)
	proxy, m := testenv.NewProxy(t, srv.Addr()), watch(t, srv)
	tellScripts(t, srv)
	s := connectBy(t, &redis.Options{Addr: proxy.Addr()}, around, latchkey.RenewedLease(replyLease))
	for _, h := range hooks {
		s.client.AddHook(h)
	}
	if err := s.client.Ping(context.Background()).Err(); err != nil { // there is a connection already
		t.Fatal(err)
	}
	begin := func() { proxy.CutReplies(asking(u.asks), testenv.Times(1)) }
	call := latchkey.Action(s.WithLock("#{param}", u.opts...), func(ctx context.Context, _ []string) error {
		a.ran = true
		if u.inside {
			begin()
		}
		if u.asks == askRenew {
			proxy.AwaitFaults(t, 1)
			// It goes on, or it hears of the loss.
			renewed := s.events.count(latchkey.EventRenewed)
			eventually(t, "the lease is renewed or lost", func() bool {
				return ctx.Err() != nil || s.events.count(latchkey.EventRenewed) > renewed
			})
		}
		return context.Cause(ctx)
	})
	from := m.mark(t)
	if !u.inside {
		begin()
	}
	a.err = call(context.Background(), u.keys)
	if u.asks == askRelease {
		eventually(t, "the release is repeated", func() bool {
			to := m.mark(t)
			return len(m.between(from, to, releases))+len(m.between(from, to, leaves)) > 1
		})
	}
	for _, key := range u.keys {
		if look(t, srv, key).owner != "" {
			a.left = append(a.left, key)
		}
	}
	to := m.mark(t)
	if n := proxy.Counts().Cut; n != 1 {
		t.Errorf("void: %d answers were cut off", n)
	}
	a.letGo = s.events.err(latchkey.EventReleaseFailed)
	a.owners = m.ownersOf(from, to, u.keys)
	for _, kind := range u.kinds {
		a.tried += len(m.between(from, to, kind))
	}
	t.Logf("ran %t, %v; of the release: %v; the server saw %d owners and was asked %d times to %s",
		a.ran, a.err, a.letGo, len(a.owners), a.tried, u.name)
	return a
}

// tellScripts has the server know the scripts, so that the first answer to each is the answer.
func tellScripts(t *testing.T, srv *testenv.Server) {
	t.Helper()
	s := connect(t, srv.Addr())
	store := redisstore.New(s.client)
	for _, op := range []latchkey.Op{
		{Kind: latchkey.OpAcquire, Tokens: 1},
		{Kind: latchkey.OpAcquire, More: []string{"second", "third"}},
		{Kind: latchkey.OpRenew},
		{Kind: latchkey.OpRelease},
	} {
		op.Key, op.Owner, op.Lease = "first", "nobody", time.Millisecond
		if store.Do(context.Background(), []*latchkey.Op{&op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
}

// ownersOf returns who was given one of the keys between two marks, each once. A SET NX counts also if it was refused.
func (m *monitor) ownersOf(from, to int, keys []string) (owners []string) {
	for _, c := range m.said(from, to, "SET") {
		if slices.ContainsFunc(keys, func(k string) bool { return full(k) == c.args[1] }) && !slices.Contains(owners, c.args[2]) {
			owners = append(owners, c.args[2])
		}
	}
	return owners
}

// A request of which only the answer is lost has taken effect. Its owner asks again, and is told that the lock is its own.
func TestReplyThatIsLostCostsNobodyTheLock(t *testing.T) {
	t.Parallel()
	subtests := make(map[string]func(t *testing.T))
	for _, u := range unansweredRequests {
		subtests[u.name] = func(t *testing.T) {
			a := unanswer(t, u, plain)
			if !a.ran || a.err != nil {
				t.Errorf("one answer was lost: ran %t, %v", a.ran, a.err)
			}
			if len(a.left) > 0 {
				t.Errorf("the call is over and %s are still held", strings.Join(a.left, " "))
			}
			if len(a.owners) != 1 {
				t.Errorf("one call, and the server saw %d owners", len(a.owners))
			}
			if a.tried < 2 {
				t.Errorf("void: the server was asked only %d times", a.tried)
			}
			if u.asks != askRelease && a.letGo != nil {
				t.Errorf("the lock was let go with %v", a.letGo)
			}
			// It was carried out, but nobody has said so.
			if u.asks == askRelease && (!errors.Is(a.letGo, latchkey.ErrStore) || errors.Is(a.letGo, latchkey.ErrLeaseLost)) {
				t.Errorf("the release was not answered and the observer hears %v", a.letGo)
			}
		}
	}
	abreast(t, subtests)
}

// forgetsWho is a store that asks again under another name.
type forgetsWho struct {
	latchkey.Store
	mu    sync.Mutex
	asked map[string]int
}

// Do implements [latchkey.Store].
func (s *forgetsWho) Do(ctx context.Context, ops []*latchkey.Op) {
	s.mu.Lock()
	for _, op := range ops {
		if op.Kind == latchkey.OpAcquire {
			if s.asked[op.Owner]++; s.asked[op.Owner] > 1 {
				op.Owner += strings.Repeat("x", s.asked[op.Owner])
			}
		}
	}
	s.mu.Unlock()
	s.Store.Do(ctx, ops)
}

// takesSilenceForNo is a store that reports a renewal without an answer as refused.
type takesSilenceForNo struct{ latchkey.Store }

// Do implements [latchkey.Store].
func (s *takesSilenceForNo) Do(ctx context.Context, ops []*latchkey.Op) {
	s.Store.Do(ctx, ops)
	for _, op := range ops {
		if op.Kind == latchkey.OpRenew && op.Err != nil {
			op.Reset()
		}
	}
}

// retrying has the client send commands again by itself, as it does by default.
type retrying struct{ trips }

// ProcessHook implements [redis.Hook].
func (*retrying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		again := redis.NewCmd(ctx, cmd.Args()...)
		err := next(ctx, again)
		if v, ok := cmd.(interface{ SetVal(v any) }); ok {
			v.SetVal(again.Val())
		}
		cmd.SetErr(err)
		return err
	}
}

// The controls: what a lost answer does to those who take it the usual way.
func TestReplyThatIsLostIsSeenToCostTheLock(t *testing.T) {
	t.Parallel()
	abreast(t, map[string]func(t *testing.T){
		"asked again by another owner": func(t *testing.T) {
			a := unanswer(t, unansweredAcquire, func(s latchkey.Store) latchkey.Store {
				return &forgetsWho{Store: s, asked: make(map[string]int)}
			})
			if a.ran || !errors.Is(a.err, latchkey.ErrBusy) || len(a.left) == 0 {
				t.Errorf("ran %t, %v, still held: %q", a.ran, a.err, a.left)
			}
		},
		"a renewal is not asked again": func(t *testing.T) {
			a := unanswer(t, unansweredRenewal, func(s latchkey.Store) latchkey.Store { return &takesSilenceForNo{s} })
			if !a.ran || !errors.Is(a.err, latchkey.ErrLeaseLost) {
				t.Errorf("ran %t, %v", a.ran, a.err)
			}
		},
		"a release is asked again by the client": func(t *testing.T) {
			a := unanswer(t, unansweredRelease, plain, &retrying{})
			if !errors.Is(a.letGo, latchkey.ErrLeaseLost) {
				t.Errorf("a good release that was sent twice was answered %v", a.letGo)
			}
		},
		"SET NX is asked again by the client": func(t *testing.T) {
			srv := testenv.Redis(t)
			proxy := testenv.NewProxy(t, srv.Addr())
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			proxy.CutReplies(asking(askAcquire), testenv.Times(1))
			taken, err := rdb.SetNX(context.Background(), full("one"), "me", time.Minute).Result()
			if owner := look(t, srv, "one").owner; taken || err != nil || owner != "me" {
				t.Errorf("taken %t, %v, and the owner is %q", taken, err, owner)
			}
		},
	})
}
