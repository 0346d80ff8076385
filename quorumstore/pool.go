package quorumstore

import (
	"context"
	"errors"
	"time"

	redsync "github.com/go-redsync/redsync/v4/redis"

	"github.com/latchkey-go/latchkey"
)

// pool is one master as redsync sees it. redsync counts the votes; what it takes to get one is done here: the idempotent
// SET NX, the time that a master may take, the breaker, the hints and the clean-up.
type pool struct{ m *master }

var _ redsync.Pool = pool{}

// ballotKey finds the ballot in the context that redsync passes on.
type ballotKey struct{}

// Get implements redsync's Pool. Only the ballot is taken from the context, not its end: redsync ends it as soon as it
// knows enough, and a vote that was asked for has to be accounted for all the same.
func (p pool) Get(ctx context.Context) (redsync.Conn, error) {
	b, ok := ctx.Value(ballotKey{}).(*ballot)
	if !ok {
		return nil, errUnused
	}
	return conn{p.m, b}, nil
}

// conn is one master's part in one ballot.
type conn struct {
	m *master
	b *ballot
}

// errUnused is what redsync's mutexes never see: they use SetNX and Eval.
var errUnused = errors.New("quorumstore: not a request of a quorum store")

// SetNX implements redsync's Conn.
func (c conn) SetNX(string, string, time.Duration) (bool, error) { return c.b.acquire(c.m) }

// Eval implements redsync's Conn. Each kind of ballot has one use for it; the script is ours, not redsync's.
func (c conn) Eval(*redsync.Script, ...any) (any, error) {
	do := c.b.release
	switch c.b.op.Kind {
	case latchkey.OpAcquire:
		do = c.b.rollback
	case latchkey.OpRenew:
		do = c.b.renew
	}
	yes, err := do(c.m)
	if yes {
		return int64(1), err
	}
	return int64(0), err
}

// Close implements redsync's Conn.
func (conn) Close() error { return nil }

func (conn) Get(string) (string, error)         { return "", errUnused }
func (conn) Set(string, string) (bool, error)   { return false, errUnused }
func (conn) ScriptLoad(*redsync.Script) error   { return errUnused }
func (conn) PTTL(string) (time.Duration, error) { return 0, errUnused }
