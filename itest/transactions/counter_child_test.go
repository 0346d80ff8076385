//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// The ways in which a counter is counted up.
const (
	modeLatchkey  = "latchkey"            // lock around the transaction
	modeTwo       = "two"                 // read in one transaction, write in another, both under one lease
	modeEarly     = "unlock before"       // control: the lock is let go before COMMIT
	endless       = 1 << 40               // a Count that is ended by "stop"
	tokenDatabase = "tokens of database"  // fenced with tokens of the database
	tokenStore    = "tokens of the store" // fenced with tokens of Redis
)

// counterConfig is one child's work.
type counterConfig struct {
	Kind, Driver, URL, Redis string
	Mode, Fence              string
	Isolation                sql.IsolationLevel
	Accounts                 []string
	Count                    int64
	Lease                    time.Duration
	Thinks, Pauses           bool // between reading and writing, and ask to be stopped meanwhile
}

// counterResult is what it did.
type counterResult struct {
	Acked, Unknown, Lost, Fenced, Failed int64
	Error                                string // the last one that was none of the expected
}

// counter counts up accounts under locks and writes each transaction's id into the ledger.
type counter struct {
	counterConfig

	self  *testenv.Self
	db    *sqlx.DB
	m     *latchkey.TxManager
	locks *latchkey.Locks
	left  atomic.Int64
	res   struct{ acked, unknown, lost, fenced, failed atomic.Int64 }
	last  atomic.Pointer[string]
	seq   atomic.Int64

	inside sync.Map // account: whether a function of this process has read it and not yet written it
}

func counterChild(self *testenv.Self) {
	c := &counter{self: self}
	if err := json.Unmarshal([]byte(self.Args[0]), &c.counterConfig); err != nil {
		self.Failf("%v", err)
	}
	c.db = sqlx.MustConnect(c.Driver, c.URL)
	defer c.db.Close()
	c.db.SetMaxIdleConns(8)
	dial := &dialer{addr: c.Redis}
	client := redis.NewClient(&redis.Options{Addr: "redis", Dialer: dial.dial})
	defer client.Close()
	var opts []latchkey.TxManagerOption
	switch c.Fence {
	case tokenStore:
		opts = append(opts, latchkey.Fenced(latchkey.FenceIdle(2*time.Second)))
	case tokenDatabase:
		opts = append(opts, latchkey.Fenced(latchkey.FenceIdle(2*time.Second), latchkey.DatabaseTokens()))
	}
	c.m = latchkey.NewTxManager(c.db, append(opts, latchkey.Isolation(c.Isolation))...)
	c.locks = latchkey.New(redisstore.New(client), latchkey.RenewedLease(c.Lease), latchkey.Wait(20*time.Second),
		latchkey.Observe(latchkey.ObserverFunc(func(_ context.Context, e latchkey.Event) {
			if _, inside := c.inside.Load(strings.TrimPrefix(e.Key, "account:")); inside && e.Kind == latchkey.EventLost {
				c.res.lost.Add(1)
				self.Sayf("lost")
			}
		})))
	defer c.locks.Close()
	c.left.Store(c.Count)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for {
			line, ok := self.Hear()
			switch {
			case !ok || line == "stop":
				stop()
				return
			case strings.HasPrefix(line, "redis "):
				dial.swap(strings.TrimPrefix(line, "redis "))
			}
		}
	}()
	var work sync.WaitGroup
	for _, account := range c.Accounts {
		work.Go(func() { c.work(ctx, account) })
	}
	work.Wait()
	res := counterResult{
		c.res.acked.Load(), c.res.unknown.Load(), c.res.lost.Load(), c.res.fenced.Load(), c.res.failed.Load(), "",
	}
	if last := c.last.Load(); last != nil {
		res.Error = *last
	}
	text, _ := json.Marshal(res)
	self.Sayf("%s", text)
}

func (c *counter) work(ctx context.Context, account string) {
	once := c.way()
	for ctx.Err() == nil && c.left.Add(-1) >= 0 {
		for ctx.Err() == nil {
			err := once(context.Background(), account)
			switch {
			case err == nil:
				c.res.acked.Add(1)
			case errors.Is(err, latchkey.ErrOutcomeUnknown):
				c.res.unknown.Add(1)
			case errors.Is(err, latchkey.ErrFenced):
				c.res.fenced.Add(1)
			default:
				c.res.failed.Add(1)
				if !errors.Is(err, latchkey.ErrLeaseLost) && !errors.Is(err, latchkey.ErrBusy) && !errors.Is(err, latchkey.ErrStore) {
					text := err.Error()
					c.last.Store(&text)
				}
			}
			if err == nil {
				break
			}
		}
	}
}

// way is the function that counts once.
func (c *counter) way() func(context.Context, string) error {
	lock := func(f func(context.Context, string) error, opts ...latchkey.DecoratorOption) func(context.Context, string) error {
		return latchkey.Action(c.locks.WithLock("account:#{param}", opts...), f)
	}
	switch c.Mode {
	case modeLatchkey:
		return lock(func(ctx context.Context, account string) error {
			tx, _ := latchkey.TxFrom(ctx)
			return c.count(ctx, tx, account)
		}, latchkey.Transactional(c.m))
	case modeTwo:
		return lock(func(ctx context.Context, account string) error {
			var n int64
			err := c.m.InTx(ctx, func(ctx context.Context, tx *latchkey.Tx) (err error) {
				n, err = c.read(ctx, tx, account)
				return err
			})
			if err != nil {
				return err
			}
			c.pause(account)
			// What a service that does not look at its context would do.
			return c.m.InTx(blind(ctx), func(ctx context.Context, tx *latchkey.Tx) error { return c.write(ctx, tx, account, n+1) })
		})
	case modeEarly:
		return func(ctx context.Context, account string) error {
			return c.byHand(ctx, func(tx *sqlx.Tx) error {
				return lock(func(ctx context.Context, account string) error { return c.count(ctx, tx, account) })(ctx, account)
			})
		}
	}
	panic(c.Mode)
}

func (c *counter) byHand(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := c.db.BeginTxx(ctx, &sql.TxOptions{Isolation: c.Isolation})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (c *counter) count(ctx context.Context, tx sqlx.ExtContext, account string) error {
	n, err := c.read(ctx, tx, account)
	if err != nil {
		return err
	}
	c.pause(account)
	return c.write(ctx, tx, account, n+1)
}

func (c *counter) read(ctx context.Context, tx sqlx.ExtContext, account string) (n int64, err error) {
	err = sqlx.GetContext(ctx, tx, &n, tx.Rebind("SELECT n FROM account WHERE id = ?"), account)
	return n, err
}

func (c *counter) write(ctx context.Context, tx sqlx.ExtContext, account string, n int64) error {
	if _, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = ? WHERE id = ?"), n, account); err != nil {
		return err
	}
	id := fmt.Sprintf("%s-%d", ownName, c.seq.Add(1))
	_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO ledger (id, account) VALUES (?, ?)"), id, account)
	return err
}

// pause is between reading and writing, where the parent may stop this process.
func (c *counter) pause(account string) {
	if !c.Thinks {
		return
	}
	c.inside.Store(account, true)
	defer c.inside.Delete(account)
	if c.Pauses && rand.IntN(3) > 0 {
		c.self.Sayf("pause")
	}
	time.Sleep(3 * time.Millisecond)
}

var ownName = fmt.Sprintf("%d", time.Now().UnixNano())

// blind is a context that does not end when the lease does.
func blind(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// dialer connects to a server that can be exchanged.
type dialer struct {
	mu    sync.Mutex
	addr  string
	conns []net.Conn
}

func (d *dialer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	d.mu.Lock()
	addr := d.addr
	d.mu.Unlock()
	var nd net.Dialer
	conn, err := nd.DialContext(ctx, network, addr)
	if err == nil {
		d.mu.Lock()
		d.conns = append(d.conns, conn)
		d.mu.Unlock()
	}
	return conn, err
}

func (d *dialer) swap(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addr = addr
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}
