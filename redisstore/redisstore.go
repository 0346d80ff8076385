// Package redisstore keeps locks in Redis or Valkey, through a go-redis client: in one server, in a master that Sentinel
// watches, or in a Cluster.
//
// A lock is a plain string key whose value is its owner, always with an expiry, so that SET NX of any other program is
// refused while it is held. Beside it, in the same hash slot, there may be "{key}:q" and "{key}:h", the processes that queue
// for the lock and when each was last heard of, "{key}:t", a counter of fencing tokens, and "{key}:x", owners whose requests
// got no answer and were given up, so that a copy which arrives late locks nobody out. All go away by themselves.
//
// Taking a free lock is one SET NX PX, letting it go one script. A process that waits has one place in the queue per
// key; the release hands the lock to the first in the queue and tells it over one subscription that all waiters of a
// store share, on a channel named "latchkey:wake:" and a random text. The server must be Redis 5 or later.
//
// Replication is asynchronous: a replica that takes over may not have heard of a lock that was just taken. Its holder hears
// of that at the next renewal. The next holder's fencing token is larger if the new master's clock is not behind the old
// token: tokens follow the clock in microseconds, and a counter that was ahead of it is lost with the rest. In a Cluster
// everything about one lock is in one slot, and several locks are taken one after the other.
//
// An account that the server restricts (ACL) needs the commands of the scripts, all keys of the namespace, and to be told at
// once the channels "latchkey:wake:*", which Redis 7 gives no new account by itself: without them waiters poll.
//
// However many callers there are, requests share pipelines: a store takes one connection for its subscription and mostly
// no more than two others from the client's pools.
package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redisreply"
)

// Store is a [latchkey.Store] in Redis. It is safe for concurrent use. Create it with [New].
type Store struct {
	client  redis.UniversalClient
	channel string
	name    func(key string) string // nil: the key is the name
	located atomic.Bool             // a Cluster's client knows where the slots are

	mu        sync.Mutex
	listeners map[*listener]struct{}
	sub       *subscription // nil while nobody listens
}

var (
	_ latchkey.Store   = (*Store)(nil)
	_ latchkey.Sharded = (*Store)(nil)
)

// New returns a store that uses the client. The client stays the caller's, to configure and to close; its own retries
// are not used for locks, since a lock command that is sent twice can be refused by its own effect.
//
// New panics if the client is nil, or a [redis.Ring], which may move a key to another server while it is locked.
func New(client redis.UniversalClient, opts ...Option) *Store {
	switch c := client.(type) {
	case nil:
		panic("redisstore: New: the client is nil; pass redis.NewClient(...)")
	case *redis.Client:
		if c == nil {
			panic("redisstore: New: the client is nil; pass redis.NewClient(...)")
		}
	case *redis.Ring:
		panic("redisstore: New: a redis.Ring moves keys to another server when one is down, locked or not; " +
			"use a redis.Client, a failover client or a redis.ClusterClient")
	}
	s := &Store{
		client:    client,
		channel:   fmt.Sprintf("latchkey:wake:%s", rand.Text()),
		listeners: make(map[*listener]struct{}),
	}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("redisstore: New: option %d is nil; leave it out", i+1))
		}
		o(s)
	}
	return s
}

// Capabilities implements [latchkey.Store].
func (s *Store) Capabilities() latchkey.Capabilities {
	_, cluster := s.client.(*redis.ClusterClient)
	return latchkey.Capabilities{Push: true, Tokens: true, Proofs: true, ManyKeys: !cluster, Bars: true}
}

// Do implements [latchkey.Store]: one command or one pipeline.
func (s *Store) Do(ctx context.Context, ops []*latchkey.Op) {
	s.awaitSubscription(ctx, ops)
	cmds := make([]*command, 0, len(ops))
	for _, op := range ops {
		op.Reset()
		if op.Ctx != nil && op.Ctx.Err() != nil {
			op.Err = context.Cause(op.Ctx)
			continue
		}
		if op.Owner == "" {
			nobody(op)
			continue
		}
		cmds = append(cmds, s.command(ctx, op))
	}
	s.send(ctx, cmds)
	// A server that was restarted, or whose scripts were flushed, has to be told the scripts again.
	unknown := cmds[:0]
	for _, c := range cmds {
		if c.script != nil && c.Err() != nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			unknown = append(unknown, c.withSource(ctx))
		} else {
			c.answer()
		}
	}
	s.send(ctx, unknown)
	for _, c := range unknown {
		c.answer()
	}
}

func (s *Store) send(ctx context.Context, cmds []*command) {
	switch len(cmds) {
	case 0:
	case 1:
		_ = s.client.Process(ctx, cmds[0]) // the command has the error
	default:
		pipe := s.client.Pipeline()
		for _, c := range cmds {
			_ = pipe.Process(ctx, c) // only queues
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	s.relocate(ctx, cmds)
}

// relocate has the client of a cluster find out where the slots are now, in the background, when a command got no answer or
// one that a healthy master does not give. By itself it asks only when a node tells it that a slot has moved, and a dead
// master tells nothing: for many seconds after its replica took over, all its locks would be out of reach.
func (s *Store) relocate(ctx context.Context, cmds []*command) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return
	}
	for _, c := range cmds {
		err := c.Err()
		if err == nil || redisreply.Answered(err) {
			s.located.Store(true)
		}
		if err != nil && !redisreply.Final(err) && !errors.Is(err, redis.Nil) {
			cluster.ReloadState(ctx)
			return
		}
	}
}

// Shard implements [latchkey.Sharded]: in a Cluster it is the master that has the key's slot.
func (s *Store) Shard(key string) string {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok || !s.located.Load() { // before the first answer the client would have to ask where the slots are
		return ""
	}
	master, err := cluster.MasterForKey(context.Background(), s.names(key).lock)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}
