package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redisreply"
)

// command is the Redis command for one operation.
type command struct {
	*redis.Cmd
	op     *latchkey.Op
	script *script // nil: not a script
}

// NoRetry keeps the client from sending the command again by itself: a second SET NX would be refused by the first.
func (c *command) NoRetry() bool { return true }

var errNoOwner = errors.New("redisstore: the owner is empty; an owner is a random text")

// nobody answers an operation whose owner is empty: the scripts would take it for the owner of a key that holds an empty
// value.
func nobody(op *latchkey.Op) {
	if op.Kind == latchkey.OpAcquire {
		op.Err, op.Final = errNoOwner, true
	}
}

// millis rounds up: a lease is never shorter than asked for, and never 0 if it is not.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func (s *Store) command(ctx context.Context, op *latchkey.Op) *command {
	ms := millis(op.Lease)
	n := s.names(op.Key)
	switch {
	case op.Kind == latchkey.OpAcquire && op.Fast && op.Tokens == 0 && op.Prev == "" && len(op.More) == 0:
		return &command{redis.NewCmd(ctx, "set", n.lock, op.Owner, "nx", "px", ms), op, nil}
	case op.Kind == latchkey.OpAcquire && len(op.More) > 0:
		args := []any{"evalsha", acquireManyScript.sha, 2 * (1 + len(op.More)), n.lock, n.bars()}
		for _, key := range op.More {
			more := s.names(key)
			args = append(args, more.lock, more.bars())
		}
		args = append(args, op.Owner, ms, latchkey.OwnerPrefix)
		return &command{redis.NewCmd(ctx, args...), op, &acquireManyScript}
	case op.Kind == latchkey.OpAcquire:
		channel := ""
		if op.Queue {
			channel = s.channel
		}
		return &command{redis.NewCmd(ctx, "evalsha", acquireScript.sha, 5,
			n.lock, n.queue(), n.counter(), n.bars(), n.heard(),
			op.Owner, ms, op.Prev, channel, millis(op.Grant), op.Tokens, latchkey.OwnerPrefix), op, &acquireScript}
	case op.Kind == latchkey.OpRenew:
		return &command{redis.NewCmd(ctx, "evalsha", renewScript.sha, 1, n.lock, op.Owner, ms), op, &renewScript}
	case op.Kind == latchkey.OpRelease && op.Leave:
		return &command{redis.NewCmd(ctx, "evalsha", leaveScript.sha, 4, n.lock, n.queue(), n.bars(), n.heard(),
			op.Owner, s.channel, millis(op.Grant), millis(op.Bar)), op, &leaveScript}
	case op.Kind == latchkey.OpRelease:
		return &command{redis.NewCmd(ctx, "evalsha", releaseScript.sha, 3, n.lock, n.queue(), n.heard(), op.Owner), op, &releaseScript}
	case op.Kind == latchkey.OpProve:
		return &command{redis.NewCmd(ctx, "evalsha", proveScript.sha, 1, n.lock, op.Owner), op, &proveScript}
	case op.Kind == latchkey.OpToken:
		return &command{redis.NewCmd(ctx, "evalsha", tokenScript.sha, 2, n.lock, n.counter(),
			op.Owner, op.Tokens, op.Above), op, &tokenScript}
	}
	panic(fmt.Sprintf("redisstore: unknown operation %d", op.Kind))
}

// withSource returns the same command with the script itself instead of its name.
func (c *command) withSource(ctx context.Context) *command {
	args := c.Args()
	args[0], args[1] = "eval", c.script.source
	return &command{redis.NewCmd(ctx, args...), c.op, c.script}
}

// answer turns the reply into the operation's answer.
func (c *command) answer() {
	op := c.op
	reply, err := c.Result()
	switch {
	case errors.Is(err, redis.Nil): // SET NX of a key that exists
		op.Busy = op.Key
		return
	case err != nil:
		op.Err, op.Final = err, redisreply.Final(err)
		return
	}
	switch v := reply.(type) {
	case string: // OK of SET
		op.OK = true
	case int64:
		op.OK = v == 1
	case []any:
		op.OK = number(v, 0) == 1
		switch {
		case op.OK && op.Tokens > 0:
			op.Token = number(v, 1) - op.Tokens + 1
		case op.OK && op.Kind == latchkey.OpProve:
			op.Remaining = max(time.Duration(number(v, 1))*time.Millisecond, 0)
		case !op.OK && op.Kind == latchkey.OpAcquire:
			c.refused(v)
		}
	default:
		op.Err, op.Final = fmt.Errorf("redisstore: unexpected reply %T", reply), true
	}
}

func (c *command) refused(v []any) {
	op := c.op
	op.Remaining = max(time.Duration(number(v, 1))*time.Millisecond, 0)
	op.Foreign = number(v, 2) == 1
	if len(op.More) == 0 {
		op.Busy, op.Ticket = op.Key, number(v, 3)
		return
	}
	if i := int(number(v, 3)); i > 1 && i-2 < len(op.More) {
		op.Busy = op.More[i-2]
	} else {
		op.Busy = op.Key
	}
}

// number returns an element of a reply, which scripts give as integer or, to be exact, as text.
func number(v []any, i int) int64 {
	if i >= len(v) {
		return 0
	}
	switch n := v[i].(type) {
	case int64:
		return n
	case string:
		return parse(n)
	}
	return 0
}

// parse reads an integer that a server may have formatted as a floating-point number.
func parse(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64)
	return int64(f)
}
