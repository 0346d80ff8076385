package locktest

import (
	"fmt"
	"testing"

	"github.com/latchkey-go/latchkey"
)

// check is one promise of a store.
type check struct {
	name  string
	needs func(latchkey.Capabilities) bool // nil: every store
	run   func(*prober) error
}

func all() []check {
	var cs []check
	for _, group := range [][]check{
		ownerChecks, leaseChecks, batchChecks, queueChecks,
		tokenChecks, manyChecks, barChecks, proofChecks,
	} {
		cs = append(cs, group...)
	}
	return cs
}

// Conformance runs the suite. open returns two views of one empty store, as two processes have it: two clients of one
// server, each in a store of its own. For a store that lives in one process both may be the same. It is called once per
// check, and may clean up with the test that it is given.
//
// What a store states not to be capable of is not checked. The suite takes a few seconds, since leases have to run
// out.
func Conformance(t *testing.T, open func(t *testing.T) (a, b latchkey.Store)) {
	t.Helper()
	for _, c := range all() {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			if c.needs != nil && !c.needs(a.Capabilities()) {
				return
			}
			if err := c.apply(a, b); err != nil {
				t.Error(err)
			}
		})
	}
}

// Violation is a check that a store did not pass.
type Violation struct {
	// Check is its name.
	Check string
	// Err says what the store did.
	Err error
}

// Verify runs the suite outside a test and returns what the store does wrong, nil if nothing. The two views are as in
// [Conformance], but serve all checks, one after the other, with keys of their own.
func Verify(a, b latchkey.Store) []Violation {
	var found []Violation
	for _, c := range all() {
		if c.needs != nil && !c.needs(a.Capabilities()) {
			continue
		}
		if err := c.apply(a, b); err != nil {
			found = append(found, Violation{c.name, err})
		}
	}
	return found
}

func (c check) apply(a, b latchkey.Store) (err error) {
	p := newProber(a, b)
	defer p.close()
	defer func() {
		// A check that can't go on says why in this way.
		if r := recover(); r != nil {
			stop, ok := r.(stopped)
			if !ok {
				panic(r)
			}
			err = stop.err
		}
	}()
	if a.Capabilities() != b.Capabilities() {
		return fmt.Errorf("the two views state different capabilities: %+v and %+v", a.Capabilities(), b.Capabilities())
	}
	return c.run(p)
}
