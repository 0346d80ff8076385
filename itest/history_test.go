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

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// run is one run of a function under the lock, as its process saw it: from its start to the last moment at which its
// context said that the lock was held.
type run struct {
	who        string
	start, end time.Time
}

// stillborn is a run whose context had ended when it was started.
type stillborn struct {
	who   string
	cause error
}

// runs takes down the runs of a test.
type runs struct {
	mu   sync.Mutex
	all  []run
	dead []stillborn
}

// under is the body of a locked function: it asks its context about the lock again and again, until it hears of the loss or
// is let go.
func (r *runs) under(ctx context.Context, who string, letGo <-chan struct{}) {
	held := run{who: who}
	for {
		now := time.Now() // before the question: at that moment at least it was held
		if ctx.Err() != nil {
			break
		}
		if held.start.IsZero() {
			held.start = now
		}
		held.end = now
		select {
		case <-letGo:
		case <-time.After(500 * time.Microsecond):
			continue
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if held.start.IsZero() { // it does not believe to hold anything
		r.dead = append(r.dead, stillborn{who, context.Cause(ctx)})
		return
	}
	r.all = append(r.all, held)
}

func (r *runs) list() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]run(nil), r.all...)
}

func (r *runs) stillborn() []stillborn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]stillborn(nil), r.dead...)
}

// hold is one owner's time with the lock, as the server saw it.
type hold struct {
	owner      string
	start, end time.Time
	forgotten  bool // ended because the server lost its data
}

// history is what the server was told about one key, across its restarts.
type history struct {
	key    string
	holds  []hold
	expiry time.Time
	held   bool
	seg    *monitor
}

func recordHistory(t *testing.T, srv *testenv.Server, key string) *history {
	return &history{key: full(key), seg: watch(t, srv)}
}

// end closes the present hold.
func (h *history) close(at time.Time, forgotten bool) {
	if h.held {
		last := &h.holds[len(h.holds)-1]
		last.end, last.forgotten, h.held = at, forgotten, false
	}
}

// expire ends a hold whose lease is over by then.
func (h *history) expire(now time.Time) {
	if h.held && !h.expiry.After(now) {
		h.close(h.expiry, false)
	}
}

func (h *history) take(owner string, at time.Time, ms string) {
	n, _ := strconv.ParseInt(ms, 10, 64)
	if h.held && h.holds[len(h.holds)-1].owner == owner {
		h.expiry = at.Add(time.Duration(n) * time.Millisecond)
		return
	}
	h.close(at, false)
	h.holds = append(h.holds, hold{owner: owner, start: at})
	h.held, h.expiry = true, at.Add(time.Duration(n)*time.Millisecond)
}

// feed replays what a monitor saw.
func (h *history) feed(seen []told) {
	for _, c := range seen {
		if len(c.args) < 2 || c.args[1] != h.key {
			continue
		}
		h.expire(c.at)
		switch name := strings.ToLower(c.args[0]); {
		case name == "set" && !c.script && h.held: // NX: refused
		case name == "set" && len(c.args) >= 5:
			h.take(c.args[2], c.at, c.args[len(c.args)-1])
		case name == "del" && c.script:
			h.close(c.at, false)
		case name == "pexpire" && c.script && h.held:
			n, _ := strconv.ParseInt(c.args[2], 10, 64)
			h.expiry = c.at.Add(time.Duration(n) * time.Millisecond)
		}
	}
}

// flush takes in what the server was told until now.
func (h *history) flush(t *testing.T) {
	t.Helper()
	h.seg.mark(t)
	h.seg.mu.Lock()
	defer h.seg.mu.Unlock()
	h.feed(h.seg.seen)
	h.seg.seen = nil
}

// died takes in what a server was told that has been killed.
func (h *history) died(t *testing.T) {
	t.Helper()
	hear(t, "the end of what a dead server was told", h.seg.done)
	h.feed(h.seg.seen)
}

// restarted goes on with the server that came after; nobody may have talked to it yet.
func (h *history) restarted(t *testing.T, srv *testenv.Server, keepData bool) {
	t.Helper()
	if !keepData {
		h.close(time.Now(), true)
	}
	h.seg = watch(t, srv)
}

// violations returns in which way the runs do not fit what the server saw: each run must lie within one owner's hold, and
// no two runs of different processes within the same one. After a server lost its data a run may go on until its
// holder hears of it, which takes a lease at most.
func (h *history) violations(all []run, lease time.Duration) (found []string) {
	h.expire(time.Now())
	users := map[int]string{}
	for _, r := range all {
		in := -1
		for i, o := range h.holds {
			if !o.start.After(r.start) && (o.end.IsZero() || o.end.After(r.start)) {
				in = i
			}
		}
		if in < 0 {
			found = append(found, fmt.Sprintf("%s ran at %v and nobody held the lock", r.who, r.start.Format(clock)))
			continue
		}
		o := h.holds[in]
		if !o.end.IsZero() && r.end.After(o.end) && (!o.forgotten || !r.end.Before(o.end.Add(lease))) {
			found = append(found, fmt.Sprintf("%s ran until %v, its hold was over at %v", r.who, r.end.Format(clock), o.end.Format(clock)))
		}
		if other, taken := users[in]; taken && other != r.who {
			found = append(found, fmt.Sprintf("%s and %s ran within one hold", r.who, other))
		}
		users[in] = r.who
	}
	return found
}

const clock = "05.000000"

func TestHistoryChecker(t *testing.T) {
	t.Parallel()
	zero := time.Now().Add(-time.Minute)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	say := func(ms int, script bool, args ...string) told { return told{at(ms), script, args} }
	seen := []told{
		say(0, false, "set", "latchkey:k", "A", "nx", "px", "1000"),
		say(10, false, "set", "latchkey:k", "B", "nx", "px", "1000"), // refused
		say(500, true, "PEXPIRE", "latchkey:k", "1000"),
		say(900, true, "SET", "latchkey:k", "B", "PX", "200"), // handed over; it runs out
		say(1500, false, "set", "latchkey:k", "C", "nx", "px", "1000"),
		say(1600, true, "DEL", "latchkey:k"),
	}
	for name, tt := range map[string]struct {
		runs []run
		want int
	}{
		"as it should be":          {[]run{{"a", at(1), at(899)}, {"b", at(901), at(1099)}, {"c", at(1501), at(1599)}}, 0},
		"beyond the hand-over":     {[]run{{"a", at(1), at(950)}}, 1},
		"beyond the lease":         {[]run{{"b", at(901), at(1200)}}, 1},
		"beyond the release":       {[]run{{"c", at(1501), at(1601)}}, 1},
		"without a lock":           {[]run{{"b", at(1200), at(1201)}}, 1},
		"before the server agreed": {[]run{{"c", at(1499), at(1550)}}, 1},
		"two within one hold":      {[]run{{"a", at(1), at(100)}, {"b", at(200), at(300)}}, 1},
	} {
		h := &history{key: "latchkey:k"}
		h.feed(seen)
		if got := h.violations(tt.runs, time.Second); len(got) != tt.want {
			t.Errorf("%s: %q, want %d violations", name, got, tt.want)
		}
	}
}
