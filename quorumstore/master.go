package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/batch"
	"github.com/latchkey-go/latchkey/internal/redisreply"
)

var (
	errSilent  = errors.New("no answer in time")
	errSkipped = errors.New("skipped, because it did not answer a moment ago")
)

// master is one of the servers. Commands of callers that come at the same moment share a pipeline.
type master struct {
	index    int
	client   redis.UniversalClient
	patience time.Duration // how long it may take to answer
	batch    *batch.Batcher[*call]

	mu      sync.Mutex // guards what breaker.go and undo.go add
	breaker breaker
	undo    undoList
}

func newMaster(index int, client redis.UniversalClient, patience time.Duration) *master {
	m := &master{index: index, client: client, patience: patience}
	m.batch = batch.New(m.trip, func(*call) {}, patience)
	return m
}

// call is one script on its way to a master and back.
type call struct {
	script *script
	keys   []string
	args   []any
	until  time.Time // when nobody waits for it any more
	reply  any
	err    error
	done   chan struct{}
}

func newCall(until time.Time, sc *script, keys []string, args []any) *call {
	return &call{script: sc, keys: keys, args: args, until: until, done: make(chan struct{})}
}

// command is a Redis command that the client must not repeat by itself: whether to ask again is decided here.
type command struct{ *redis.Cmd }

func (command) NoRetry() bool { return true }

func (c *call) command(ctx context.Context, verb, script string) command {
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(args, verb, script, len(c.keys))
	for _, k := range c.keys {
		args = append(args, k)
	}
	return command{redis.NewCmd(ctx, append(args, c.args...)...)}
}

// eval runs a script on the master. It returns when the answer is there, or when the master has been silent for as long as
// it may be; the script may then still run, later. The breaker hears how it went. If it is for a ballot that the other
// masters are too few to decide, the master gets more time, up to the ballot's deadline.
func (m *master) eval(b *ballot, sc *script, keys []string, args ...any) (any, error) {
	deadline := time.Now().Add(m.patience)
	if b != nil {
		deadline = b.deadline
	}
	c := newCall(deadline, sc, keys, args)
	wait := min(m.patience, time.Until(deadline))
	if wait <= 0 {
		return nil, errSilent
	}
	m.batch.Add(c)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return m.heard(c)
	case <-timer.C:
	}
	if b == nil || wait == m.patience { // else it was asked too late to be blamed
		m.failed()
	}
	if b == nil {
		return nil, errSilent
	}
	b.late(m)
	timer.Reset(time.Until(deadline))
	select {
	case <-c.done:
		return c.reply, c.err
	case <-b.enough:
	case <-timer.C:
	}
	return nil, errSilent
}

// heard tells the breaker about an answer that came in time.
func (m *master) heard(c *call) (any, error) {
	if c.err != nil && !redisreply.Answered(c.err) {
		m.failed()
	} else {
		m.worked()
	}
	return c.reply, c.err
}

// trip carries a batch to the server, without calls that nobody waits for any more. It may take as long as the client's own
// timeouts if those are longer than the batch is waited for.
func (m *master) trip(calls []*call) {
	now := time.Now()
	until := now
	wanted := make([]*call, 0, len(calls))
	for _, c := range calls {
		if !c.until.After(now) {
			c.err = errSilent
			close(c.done)
			continue
		}
		wanted = append(wanted, c)
		if c.until.After(until) {
			until = c.until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	var unknown []*call
	m.send(ctx, wanted, "evalsha", func(c *call, cmd command) {
		if cmd.Err() != nil && redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
			return
		}
		c.finish(cmd)
	})
	// A server that was restarted, or whose scripts were flushed, has to be told the scripts again.
	m.send(ctx, unknown, "eval", (*call).finish)
}

func (c *call) finish(cmd command) {
	c.reply, c.err = cmd.Result()
	close(c.done)
}

func (m *master) send(ctx context.Context, calls []*call, verb string, then func(*call, command)) {
	if len(calls) == 0 {
		return
	}
	pipe := m.client.Pipeline()
	cmds := make([]command, len(calls))
	for i, c := range calls {
		text := c.script.sha
		if verb == "eval" {
			text = c.script.source
		}
		cmds[i] = c.command(ctx, verb, text)
		_ = pipe.Process(ctx, cmds[i]) // only queues
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range calls {
		then(c, cmds[i])
	}
}

// name is how errors call the master.
func (m *master) name() string {
	if c, ok := m.client.(*redis.Client); ok {
		return c.Options().Addr
	}
	return fmt.Sprintf("master %d", m.index+1)
}

// text returns an element of a script's reply as text.
func text(reply any, i int) string {
	if v, ok := reply.([]any); ok && i < len(v) {
		return strings.TrimSpace(fmt.Sprint(v[i]))
	}
	return ""
}
