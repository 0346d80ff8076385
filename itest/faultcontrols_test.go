//go:build unix

package itest

import (
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey"
)

// barless is a store that can't bar an owner: what was given up is only taken back again and again.
type barless struct{ latchkey.Store }

// Capabilities implements [latchkey.Store].
func (s *barless) Capabilities() latchkey.Capabilities {
	caps := s.Store.Capabilities()
	caps.Bars = false
	return caps
}

// The control of the late replays: without bars a late copy locks somebody else out.
func TestLateCopyIsSeenToBlockIfItsOwnerIsNotBarred(t *testing.T) {
	t.Parallel()
	blocked := 0
	for range 3 {
		for _, f := range troubles {
			if f.replay {
				c := &cell{t: t, step: steps[0], trouble: f, ctx: contexts[1], barless: true}
				c.run()
				if c.blocked {
					blocked++
				}
			}
		}
	}
	if blocked == 0 {
		t.Error("a copy that arrived after the release blocked nobody, though nothing was done about it")
	}
}

// broken has a cell fail, and returns what it found.
func broken(t *testing.T, step, trouble, ctx string, spoil func(*cell)) []string {
	t.Helper()
	c := &cell{t: t, ctx: ctx, broken: true}
	for _, s := range steps {
		if s.name == step {
			c.step = s
		}
	}
	for _, f := range troubles {
		if f.name == trouble {
			c.trouble = f
		}
	}
	spoil(c)
	c.run()
	t.Logf("%q", c.wrong)
	return c.wrong
}

// The controls of the table: what is broken on purpose is found in the cell that is there for it.
func TestBrokenVariantsAreSeenInTheFaultTable(t *testing.T) {
	t.Parallel()
	subtests := make(map[string]func(t *testing.T))
	for _, v := range []struct {
		name, step, trouble, ctx string
		spoil                    func(*cell)
		found                    string
	}{
		{"what was given up is not taken back", "acquire", "swallowed reply", contexts[1], func(c *cell) {
			c.around = func(s latchkey.Store) latchkey.Store { return &forgetful{s} }
		}, "somebody else was blocked for "},
		{"the function does not look at its context", "renew", "pause longer than the lease", contexts[0],
			func(c *cell) { c.blind = true }, "its hold was over at "},
		{"the first renewal without an answer is the last", "renew", "cut", contexts[0], func(c *cell) {
			c.around = func(s latchkey.Store) latchkey.Store { return &takesSilenceForNo{s} }
		}, "the lease could be kept and was lost"},
	} {
		subtests[v.name] = func(t *testing.T) {
			wrong := broken(t, v.step, v.trouble, v.ctx, v.spoil)
			if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, v.found) }) {
				t.Errorf("the harness does not see it, only %q", wrong)
			}
		}
	}
	abreast(t, subtests)
}
