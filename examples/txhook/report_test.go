//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"
)

// goodReport is how a run should come out.
func goodReport() Report {
	load := func(order Order, counted int) Result {
		return Result{Round: Round{Order: order}, Tally: Tally{Acknowledged: 100}, Committed: 100, Counted: counted}
	}
	struck := func(order Order, fenced bool, counted int) Result {
		r := load(order, counted)
		r.Faults, r.Fenced, r.Stops, r.Deletions, r.LeasesLost = 6, fenced, 6, 12, 5
		if order == Two && fenced {
			r.FencedOff = 3
		}
		return r
	}
	return Report{
		load(UnlockFirst, 60), load(Inside, 100), load(Around, 100), struck(ByHand, false, 70),
		struck(Inside, false, 90), struck(Inside, true, 100), struck(Around, false, 90), struck(Around, true, 100),
		struck(Two, false, 90), struck(Two, true, 100),
	}
}

func TestReport(t *testing.T) {
	const unlockFirst, inside, byHand, around, aroundFenced, twoFenced = 0, 1, 3, 6, 7, 9
	for _, tt := range []struct {
		name  string
		spoil func(r Report) Report
		says  string // "" if the exit code is to be 0
	}{
		{"good", func(r Report) Report { return r }, ""},
		{"latchkey loses under load", func(r Report) Report { r[inside].Counted--; return r }, "FAILED: 100 transactions were committed and the counters say 99 (lock inside)"},
		{"latchkey loses fenced", func(r Report) Report { r[aroundFenced].Counted--; return r }, "(lock around, fenced)"},
		{"counts that nobody committed", func(r Report) Report { r[twoFenced].Counted++; return r }, "the counters say 101"},
		{"acknowledged and not committed", func(r Report) Report {
			r[inside].Acknowledged++
			return r
		}, "FAILED: 101 calls were acknowledged and only 100"},
		{"calls failed", func(r Report) Report { r[around].Failed, r[around].Error = 2, "out of paper"; return r }, "out of paper"},
		{"the first control loses nothing", func(r Report) Report { r[unlockFirst].Counted = 100; return r }, "VOID: the control lost nothing"},
		{"code by hand loses nothing", func(r Report) Report { r[byHand].Counted = 100; return r }, "VOID: the control lost nothing"},
		{"unfenced loses nothing", func(r Report) Report { r[around].Counted = 100; return r }, "VOID: the control lost nothing"},
		{"nobody was stopped", func(r Report) Report { r[aroundFenced].Stops = 0; return r }, "VOID: 0 stops"},
		{"nothing was deleted", func(r Report) Report { r[aroundFenced].Deletions = 11; return r }, "11 deletions"},
		{"no lease was lost", func(r Report) Report { r[aroundFenced].LeasesLost = 0; return r }, "0 leases lost are too little"},
		{"nobody was fenced off", func(r Report) Report { r[twoFenced].FencedOff = 0; return r }, "VOID: nobody was fenced off"},
		{"nothing was held", func(Report) Report { return nil }, "VOID: no round"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			code := tt.spoil(goodReport()).Verdict(&out)
			if want := map[bool]int{true: 0, false: 1}[tt.says == ""]; code != want || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit code %d, want %d and %q in:\n%s", code, want, tt.says, &out)
			}
			if good := strings.Contains(out.String(), "fenced it loses nothing"); good != (tt.says == "") {
				t.Errorf("says that all is well: %v", good)
			}
		})
	}
}
