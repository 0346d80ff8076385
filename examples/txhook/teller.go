package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/internal/child"
	"github.com/latchkey-go/latchkey/examples/internal/servers"
	"github.com/latchkey-go/latchkey/redisstore"
)

// tellerArg is the argument that makes this program a teller instead of the whole.
const tellerArg = "teller"

// TellerConfig is what a teller is told at its beginning.
type TellerConfig struct {
	Name        string        `json:"name"`
	Order       Order         `json:"order"`
	Fenced      bool          `json:"fenced"`
	Faults      bool          `json:"faults"` // ask for some
	Calls       int           `json:"calls"`  // for each counter; 0: until it is told to stop
	Lease       time.Duration `json:"lease"`
	Run         string        `json:"run"`
	RedisURL    string        `json:"redisUrl"`
	DatabaseURL string        `json:"databaseUrl"`
}

// Tally is what a teller says at its end.
type Tally struct {
	Acknowledged int    `json:"acknowledged"` // calls that returned no error
	Unknown      int    `json:"unknown"`      // ErrOutcomeUnknown
	LeasesLost   int    `json:"leasesLost"`   // while their function ran
	FencedOff    int    `json:"fencedOff"`    // ErrFenced
	Failed       int    `json:"failed"`       // errors that nobody expected
	Error        string `json:"error"`        // one of them
}

func (t *Tally) add(other Tally) {
	t.Acknowledged += other.Acknowledged
	t.Unknown += other.Unknown
	t.LeasesLost += other.LeasesLost
	t.FencedOff += other.FencedOff
	t.Failed += other.Failed
	if other.Error != "" {
		t.Error = other.Error
	}
}

// Teller is a process that counts.
type Teller struct {
	TellerConfig

	till   *Till
	txm    *latchkey.TxManager
	locks  *latchkey.Locks
	faults *Faults
	inside atomic.Int64 // functions that run

	mu    sync.Mutex
	tally Tally
}

// tellerMain is a teller process. It ends with its standard input, which the kernel sees to when the parent goes away.
func tellerMain() int {
	if err := tell(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "teller:", err)
		return 1
	}
	return 0
}

func tell(stdin io.Reader, stdout io.Writer) error {
	var config TellerConfig
	lines, err := child.Configured(stdin, &config)
	if err != nil {
		return err
	}
	db, err := servers.OpenDatabase(config.DatabaseURL)
	if err != nil {
		return err
	}
	defer db.Close()
	redis.SetLogger(silence{}) // a process that was stopped finds its connections in an odd state
	rdb, err := servers.DialRedis(config.RedisURL)
	if err != nil {
		return err
	}
	defer rdb.Close()

	t := &Teller{TellerConfig: config, till: newTill(db, config.Run), faults: newFaults(stdout, config.Faults)}
	var opts []latchkey.TxManagerOption
	if config.Fenced {
		opts = append(opts, latchkey.Fenced())
	}
	t.txm = latchkey.NewTxManager(db, opts...)
	t.locks = latchkey.New(redisstore.New(rdb), latchkey.Namespace(config.Run), latchkey.RenewedLease(config.Lease),
		latchkey.Wait(t.patience()), latchkey.Observe(latchkey.ObserverFunc(t.observe)))
	defer t.locks.Close()

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		t.faults.Hear(lines)
	}()
	t.work(ctx)
	return json.NewEncoder(stdout).Encode(t.tally)
}

// patience is how long a call waits for its lock. Where locks are deleted, callers come back every other moment instead:
// nobody tells those who wait that a lock was deleted.
func (t *Teller) patience() time.Duration {
	if t.Faults {
		return 0
	}
	return 20 * time.Second
}

func (t *Teller) observe(_ context.Context, e latchkey.Event) {
	if e.Kind == latchkey.EventLost && t.inside.Load() > 0 {
		t.mu.Lock()
		t.tally.LeasesLost++
		t.mu.Unlock()
	}
}

// work counts every counter up until it is done, or told to stop.
func (t *Teller) work(ctx context.Context) {
	count := t.counting(t.Order)
	var wg sync.WaitGroup
	for _, id := range counters {
		wg.Go(func() {
			for left := t.Calls; ctx.Err() == nil && (t.Calls == 0 || left > 0); {
				switch err := count(context.Background(), id); {
				case errors.Is(err, latchkey.ErrBusy), t.Faults && errors.Is(err, latchkey.ErrStore):
					time.Sleep(2 * time.Millisecond) // and comes again: the function did not run
				default:
					t.note(err)
					left--
				}
			}
		})
	}
	wg.Wait()
}

// note counts how a call ended.
func (t *Teller) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.tally.Acknowledged++
	case errors.Is(err, latchkey.ErrOutcomeUnknown):
		t.tally.Unknown++
	case errors.Is(err, latchkey.ErrFenced):
		t.tally.FencedOff++
		t.faults.Fenced()
	case errors.Is(err, latchkey.ErrLeaseLost): // rolled back, or told only afterwards; the observer has counted it
	default:
		t.tally.Failed++
		t.tally.Error = err.Error()
	}
}

// think is what a function does between reading and writing: the moment at which a fault does harm.
func (t *Teller) think(id string) {
	t.inside.Add(1)
	defer t.inside.Add(-1)
	t.faults.Point(id)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
