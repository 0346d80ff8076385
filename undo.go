package latchkey

import (
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// undoer takes back what may be left of claims that were given up. A request that got no answer may still be on its
// way, and a copy that arrives after the release would lock the key for a whole lease with nobody to let it go. So
// the owner is barred from the key, where the store can do that, until that lease would have ended: whoever meets the
// lock of a barred owner takes it over at once. For stores that can't, and for programs that use the key without
// latchkey, the owner-checked release is repeated for that long besides.
type undoer struct {
	l *Locks

	mu    sync.Mutex
	todo  []*undoing
	busy  bool        // somebody runs
	timer *time.Timer // starts somebody for what is left; nil if nothing ever was
}

type undoing struct {
	full, owner string
	grant       time.Duration
	until       watchdog.Reading
	unsure      bool
	sent        watchdog.Reading // when it was last asked for
	next        watchdog.Reading
	pause       time.Duration
}

const (
	firstUndoPause = 20 * time.Millisecond
	// failedUndoPause is the longest pause while the store has not answered yet: until it does nobody is barred.
	failedUndoPause = 200 * time.Millisecond
	maxUndoPause    = time.Second
)

// add takes back g, last asked for at sent, in the background. If no request of its is unsure, one confirmed release
// is enough.
func (u *undoer) add(g *grant, sent watchdog.Reading, unsure bool) {
	until := sent.Add(max(g.item.Lease, grantFor))
	u.mu.Lock()
	u.todo = append(u.todo, &undoing{
		full: g.full, owner: g.owner, grant: g.grant, until: until, unsure: unsure || g.unsure,
		next: watchdog.Now(), pause: firstUndoPause,
	})
	start := !u.busy
	u.busy = true
	u.mu.Unlock()
	if start {
		go u.run() // not when the timer is due: a lock may be held up by it
	}
}

// wake is called by the timer.
func (u *undoer) wake() {
	u.mu.Lock()
	start := !u.busy
	u.busy = true
	u.mu.Unlock()
	if start {
		u.run()
	}
}

// run sends what is due and sets the timer for what is left.
func (u *undoer) run() {
	for {
		due := u.due()
		if due == nil {
			return
		}
		ops := make([]Op, len(due))
		now := watchdog.Now()
		for i, d := range due {
			d.sent = now
			ops[i] = Op{Kind: OpRelease, Key: d.full, Owner: d.owner, Leave: true, Grant: d.grant}
			if d.unsure && u.l.caps.Bars {
				ops[i].Bar = max(-now.Sub(d.until), 0).Truncate(time.Millisecond)
			}
		}
		u.done(due, u.l.askAll(ops, u.l.opTimeout))
	}
}

// due takes what is due; if nothing is, it arranges to be called again and returns nil.
func (u *undoer) due() []*undoing {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := watchdog.Now()
	var due, rest []*undoing
	next := time.Duration(-1)
	for _, d := range u.todo {
		wait := -now.Sub(d.next)
		if wait <= 0 && len(due) < maxTogether {
			due = append(due, d)
			continue
		}
		rest = append(rest, d)
		if next < 0 || wait < next {
			next = wait
		}
	}
	u.todo = rest
	if due != nil {
		return due
	}
	u.busy = false
	switch {
	case len(rest) == 0:
	case u.timer == nil:
		u.timer = time.AfterFunc(next, u.wake)
	default:
		u.timer.Reset(next)
	}
	return nil
}

func (u *undoer) done(due []*undoing, ops []Op) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := watchdog.Now()
	for i, d := range due {
		answered := ops[i].Err == nil
		// The last one is sent when the time is over: it takes back what came a moment before.
		if answered && !d.unsure || d.sent.Sub(d.until) >= 0 {
			continue
		}
		longest := maxUndoPause
		if !answered {
			longest = failedUndoPause
		}
		d.next = now.Add(min(d.pause, longest, max(-now.Sub(d.until), 0)))
		d.pause = min(d.pause*2, maxUndoPause)
		u.todo = append(u.todo, d)
	}
}
