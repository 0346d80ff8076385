//go:build unix

package main

import (
	"context"
	"io"
	"testing"
)

func TestUnlockBeforeCommitLosesUpdatesAndIsSeenTo(t *testing.T) {
	ctx := context.Background()
	backend, err := openBackend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	var results [2]Result
	for i, order := range []Order{UnlockFirst, Around} {
		if results[i], err = hold(ctx, backend, Round{Order: order}, 30); err != nil {
			t.Fatal(err)
		}
		if want := tellers * len(counters) * 30; results[i].Acknowledged != want || results[i].Committed != want {
			t.Errorf("%s: %d acknowledged and %d committed, want %d: %s", order, results[i].Acknowledged, results[i].Committed, want, results[i].Error)
		}
	}
	if lost := results[0].Lost(); lost <= 0 {
		t.Errorf("the control lost %d", lost)
	}
	if lost := results[1].Lost(); lost != 0 {
		t.Errorf("latchkey lost %d", lost)
	}
	// The control must not pass for latchkey.
	report := goodReport()
	results[0].Order = Around
	report[2] = results[0]
	if code := report.Verdict(io.Discard); code != 1 {
		t.Errorf("updates were lost, and the exit code is %d", code)
	}
}
