package quorumstore

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
)

// defaultPatience is long beside a round trip and short beside a lease.
const defaultPatience = 200 * time.Millisecond

// Store is a [latchkey.Store] in a majority of independent Redis masters. It is safe for concurrent use. Create it with
// [New].
type Store struct {
	masters  []*master
	quorum   int
	patience time.Duration
	engine   *redsync.Redsync
	claims   claims
	channel  string

	mu        sync.Mutex
	listeners map[*listener]struct{}
	subs      *subscriptions // nil while nobody listens
}

// Option is an option of [New].
type Option interface{ apply(s *Store) }

type option func(*Store)

func (o option) apply(s *Store) { o(s) }

// MasterTimeout is how long a master may take to answer before it counts as failed for this request, and is left out of the
// next ones until a probe in the background finds it well: 200 milliseconds unless set. It should be several times the
// round trip to the farthest master, and short beside the leases. New panics if it is under a millisecond.
func MasterTimeout(d time.Duration) Option {
	if d < time.Millisecond {
		panic(fmt.Sprintf("quorumstore: MasterTimeout(%v): at least a millisecond is needed; leave the option out for %v",
			d, defaultPatience))
	}
	return option(func(s *Store) { s.patience = d })
}

// New returns a store over the masters behind the clients: at least three, an odd number, each a server of its own that
// replicates to none of the others. A lock is held by whoever has the majority of them. Every process must name the same
// masters; their order does not matter much (equal orders make for fewer split votes).
//
// The clients stay the caller's, to configure and to close; their own retries are not used for locks. New panics if there
// are fewer than three, one is nil or given twice, or is a [redis.Ring], which may move a key to another server while it
// is locked.
func New(masters []redis.UniversalClient, opts ...Option) *Store {
	if len(masters) < 3 {
		panic(fmt.Sprintf("quorumstore: New: %d masters make no majority that survives the loss of one; "+
			"pass three or five, or use redisstore for one", len(masters)))
	}
	s := &Store{
		quorum: len(masters)/2 + 1, patience: defaultPatience,
		channel:   "latchkey:wake:" + rand.Text(),
		listeners: make(map[*listener]struct{}),
	}
	s.claims.all, s.claims.room = make(map[claimKey]*claim), claimRoom
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("quorumstore: New: option %d is nil; leave it out", i+1))
		}
		o.apply(s)
	}
	seen := make(map[redis.UniversalClient]bool)
	pools := make([]redsyncredis.Pool, len(masters))
	for i, client := range masters {
		switch c := client.(type) {
		case nil:
			panic(fmt.Sprintf("quorumstore: New: master %d is nil; pass redis.NewClient(...)", i+1))
		case *redis.Client:
			if c == nil {
				panic(fmt.Sprintf("quorumstore: New: master %d is nil; pass redis.NewClient(...)", i+1))
			}
		case *redis.Ring:
			panic(fmt.Sprintf("quorumstore: New: master %d is a redis.Ring, which moves keys to another server when one is down, "+
				"locked or not; pass a client of one server", i+1))
		}
		if seen[client] {
			panic(fmt.Sprintf("quorumstore: New: master %d is given twice; its vote would count double", i+1))
		}
		seen[client] = true
		m := newMaster(i, client, s.patience)
		s.masters = append(s.masters, m)
		pools[i] = pool{m}
	}
	s.engine = redsync.New(pools...)
	return s
}

// Capabilities implements [latchkey.Store].
func (s *Store) Capabilities() latchkey.Capabilities {
	return latchkey.Capabilities{Hints: true, Tokens: true, Bars: true}
}

// OutOfService returns the indices of the masters, in the order given to [New], that are left out at the moment because they
// failed or were slow: for health checks. A master is looked at again when there is something to ask it.
func (s *Store) OutOfService() []int {
	var out []int
	for i, m := range s.masters {
		if m.skipped() {
			out = append(out, i)
		}
	}
	return out
}
