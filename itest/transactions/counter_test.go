//go:build unix

package transactions

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// counting is a run of several processes that count up the same accounts.
type counting struct {
	d        database
	redis    *testenv.Server
	children []*testenv.ChildProcess
	events   chan counterEvent
	paused   map[int]bool
	stopping bool // the children have been told to end
	pauses   int
	losses   int // leases that were lost inside a function, so far
	total    counterResult
	running  int
	mode     string
}

type counterEvent struct {
	child  int
	line   string
	resume bool
	ended  bool
}

const counterProcesses = 4

func startCounting(t *testing.T, d database, c counterConfig) *counting {
	t.Helper()
	db := d.open(t, 0)
	db.MustExec("CREATE TABLE IF NOT EXISTS ledger (id varchar(60) PRIMARY KEY, account varchar(20) NOT NULL)")
	db.MustExec("DELETE FROM ledger")
	db.MustExec("UPDATE account SET n = 0")
	r := &counting{d: d, redis: testenv.Redis(t), events: make(chan counterEvent), paused: make(map[int]bool), running: counterProcesses, mode: c.Mode}
	c.Kind, c.Driver, c.URL, c.Redis = d.kind, d.driver, d.url, r.redis.Addr()
	if c.Count != endless {
		c.Count /= counterProcesses
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	for i := range counterProcesses {
		child := testenv.Child(t, "counter", testenv.Args(string(text)))
		r.children = append(r.children, child)
		go func() {
			e := counterEvent{child: i}
			for line := range child.Lines() {
				e.line = line
				select {
				case r.events <- e:
				case <-quit:
					return
				}
			}
			select {
			case r.events <- counterEvent{child: i, ended: true}:
			case <-quit:
			}
		}()
	}
	return r
}

// step handles one event. Processes that ask for it are stopped for some leases.
func (r *counting) step(t *testing.T, e counterEvent, lease time.Duration) {
	t.Helper()
	c := r.children[e.child]
	switch {
	case e.resume:
		r.paused[e.child] = false
		c.Resume(t)
	case e.ended:
		r.running--
	case e.line == "lost":
		r.losses++
	case e.line == "pause":
		if r.paused[e.child] || r.stopping { // it may have ended by now
			return
		}
		r.pauses++
		r.paused[e.child] = true
		c.Pause(t)
		time.AfterFunc(lease+time.Duration(rand.Int64N(int64(lease))), func() {
			r.events <- counterEvent{child: e.child, resume: true}
		})
	default:
		var res counterResult
		if err := json.Unmarshal([]byte(e.line), &res); err != nil {
			t.Fatalf("child said %q: %v", e.line, err)
		}
		r.total.Acked += res.Acked
		r.total.Unknown += res.Unknown
		r.total.Lost += res.Lost
		r.total.Fenced += res.Fenced
		r.total.Failed += res.Failed
		if res.Error != "" {
			r.total.Error = res.Error
		}
	}
}

// finish waits for all children.
func (r *counting) finish(t *testing.T, lease time.Duration) {
	t.Helper()
	late := time.After(3 * time.Minute)
	for r.running > 0 {
		select {
		case e := <-r.events:
			r.step(t, e, lease)
		case <-late:
			t.Fatalf("%d children are not done", r.running)
		}
	}
	for _, c := range r.children {
		if code := c.Wait(); code != 0 {
			t.Fatalf("a child ended with code %d:\n%s", code, c.Log())
		}
	}
}

// lost is how many committed transactions have left no trace in the counters.
func (r *counting) lost(t *testing.T) int64 {
	t.Helper()
	db := r.d.open(t, 0)
	var counted, ledger int64
	if err := db.Get(&counted, "SELECT sum(n) FROM account"); err != nil {
		t.Fatal(err)
	}
	if err := db.Get(&ledger, "SELECT count(*) FROM ledger"); err != nil {
		t.Fatal(err)
	}
	// With a lock that is no part of the transaction, a call may fail for a lease that was lost after COMMIT.
	if ledger < r.total.Acked || r.mode == modeLatchkey && ledger > r.total.Acked+r.total.Unknown {
		t.Errorf("the ledger has %d transactions, but %d were acknowledged and %d unknown", ledger, r.total.Acked, r.total.Unknown)
	}
	t.Logf("%+v, committed %d, counted %d, stops %d", r.total, ledger, counted, r.pauses)
	return ledger - counted
}

func TestUnlockBeforeCommitLosesUpdatesLatchkeyNone(t *testing.T) {
	const lease = 10 * time.Second
	for _, tt := range []struct {
		kind  string
		level sql.IsolationLevel
		fence string
		count int64
	}{
		{"postgres", sql.LevelReadCommitted, "", 5000},
		{"postgres", sql.LevelDefault, tokenStore, 4000},
		{"mariadb", sql.LevelReadCommitted, "", 5000},
		{"mariadb", sql.LevelDefault, tokenStore, 4000},
		{"sqlite", sql.LevelDefault, tokenStore, 2000},
	} {
		t.Run(fmt.Sprintf("%s %v %s", tt.kind, tt.level, tt.fence), func(t *testing.T) {
			d := newDatabase(t, tt.kind)
			r := startCounting(t, d, counterConfig{
				Mode: modeLatchkey, Fence: tt.fence, Isolation: tt.level, Accounts: accounts, Count: tt.count, Lease: lease,
			})
			r.finish(t, lease)
			if lost := r.lost(t); lost != 0 {
				t.Errorf("lost %d updates", lost)
			}
			if r.total.Acked != tt.count || r.total.Unknown+r.total.Failed+r.total.Fenced != 0 {
				t.Errorf("%+v, want %d acknowledged and nothing else", r.total, tt.count)
			}
			if tt.kind == "sqlite" {
				return // its transactions are serializable: they fail instead of losing updates
			}
			control := startCounting(t, d, counterConfig{
				Mode: modeEarly, Isolation: tt.level, Accounts: []string{"a", "b"}, Count: 400, Lease: lease,
			})
			control.finish(t, lease)
			if lost := control.lost(t); lost == 0 {
				t.Error("the control has lost nothing: this run shows nothing")
			}
		})
	}
}

// chaos runs until enough leases were lost inside the function, while processes are stopped, half of them are moved to another
// Redis long before the other half is, and one of the two is killed and comes back empty.
func (r *counting) chaos(t *testing.T, lease time.Duration, enough int) {
	t.Helper()
	second := testenv.Redis(t)
	begin := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	faults := 0
	for time.Since(begin) < 2*time.Minute && (r.losses < enough || faults < 6) {
		select {
		case e := <-r.events:
			if e.ended {
				t.Fatalf("a child ended early")
			}
			r.step(t, e, lease)
		case <-tick.C:
			if r.losses < enough*(faults+1)/7 {
				continue
			}
			faults++
			switch faults % 3 {
			case 1:
				r.move(t, second.Addr(), 0, counterProcesses/2)
			case 2:
				r.redis.Restart(t, testenv.LoseData)
			case 0:
				r.move(t, second.Addr(), counterProcesses/2, counterProcesses)
				r.redis, second = second, r.redis
			}
		}
	}
	if faults < 6 {
		t.Errorf("only %d stops and %d faults of Redis happened, and %d leases were lost", r.pauses, faults, r.losses)
	}
	r.stopping = true
	for _, c := range r.children {
		c.Sayf(t, "stop")
	}
	r.finish(t, lease)
}

func (r *counting) move(t *testing.T, addr string, from, to int) {
	t.Helper()
	for _, c := range r.children[from:to] {
		c.Sayf(t, "redis %s", addr)
	}
}

// The control is the same without the fence, and the worst of these faults alone: half of the processes have another Redis. In one transaction a holder that was overtaken need not be fenced off: the next
// one waits for its row, and it can commit. Between two it is.
func TestFencedLosesNothingWhateverHappens(t *testing.T) {
	const lease = 25 * time.Millisecond
	for _, tt := range []struct {
		kind, mode, fence string
	}{
		{"postgres", modeLatchkey, tokenStore},
		{"mariadb", modeLatchkey, tokenStore},
		{"postgres", modeTwo, tokenStore},
		{"mariadb", modeTwo, tokenDatabase},
		{"sqlite", modeTwo, tokenStore},
	} {
		t.Run(strings.Join([]string{tt.kind, tt.mode, tt.fence}, " "), func(t *testing.T) {
			d := newDatabase(t, tt.kind)
			config := counterConfig{
				Mode: tt.mode, Fence: tt.fence, Accounts: accounts, Count: endless, Lease: lease, Thinks: true, Pauses: true,
			}
			r := startCounting(t, d, config)
			r.chaos(t, lease, 200)
			if lost := r.lost(t); lost != 0 {
				t.Errorf("lost %d updates", lost)
			}
			if r.total.Lost < 200 {
				t.Errorf("only %d leases were lost inside the function: this run shows too little", r.total.Lost)
			}
			if tt.mode == modeTwo && r.total.Fenced == 0 {
				t.Error("nobody was fenced off: this run shows nothing")
			}
			config.Fence, config.Pauses, config.Count, config.Lease = "", false, 400, time.Second
			control := startCounting(t, d, config)
			control.move(t, testenv.Redis(t).Addr(), 0, counterProcesses/2)
			control.finish(t, lease)
			if lost := control.lost(t); lost <= 0 {
				t.Errorf("the control has lost %d: this run shows nothing", lost)
			}
		})
	}
}
