package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/examples/internal/child"
)

const (
	tellers     = 4
	longLease   = 10 * time.Second
	shortLease  = 120 * time.Millisecond
	roundLimit  = 30 * time.Second // ends a round that does not come to enough faults
	farewellFor = 20 * time.Second // for a teller to say its tally
)

// Round is one order, under load or under faults.
type Round struct {
	Order  Order
	Fenced bool
	Faults int // so many stops, and the deletions that go with them; 0: none, and leases that live
}

// Result is one line of the table.
type Result struct {
	Round
	Tally

	Committed, Counted int // transactions in the ledger, and what the counters say
	Stops, Deletions   int
}

// Lost is how many committed transactions have left no trace in the counters.
func (r Result) Lost() int { return r.Committed - r.Counted }

// hold runs a round.
func hold(ctx context.Context, b *Backend, round Round, calls int) (result Result, err error) {
	result.Round = round
	if err := b.Till.Reset(ctx); err != nil {
		return result, err
	}
	config := TellerConfig{
		Order: round.Order, Fenced: round.Fenced, Faults: round.Faults > 0, Calls: calls, Lease: longLease,
		Run: b.Run, RedisURL: b.RedisURL, DatabaseURL: b.DatabaseURL,
	}
	if config.Faults {
		config.Calls, config.Lease = 0, shortLease
	}
	injector := &Injector{rdb: b.Redis, run: b.Run, lease: config.Lease}
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	// enough ends the round when there were enough faults, and those have done what they are there to do.
	enough := func() {
		if injector.Enough(round.Faults) && round.telling(ctx, b.Till, injector) {
			cancel()
		}
	}
	type end struct {
		tally Tally
		err   error
	}
	ends := make(chan end, tellers)
	for i := range tellers {
		config := config
		config.Name = fmt.Sprintf("teller %d", i+1)
		go func() {
			tally, err := employ(ctx, config, injector, enough)
			ends <- end{tally, err}
		}()
	}
	var errs []error
	for range tellers {
		e := <-ends
		errs = append(errs, e.err)
		result.add(e.tally)
	}
	if err := errors.Join(errs...); err != nil {
		return result, err
	}
	result.Stops, result.Deletions = injector.Struck()
	result.Committed, result.Counted, err = b.Till.Totals(context.WithoutCancel(ctx))
	return result, err
}

// telling reports whether a round under faults shows something already: an update that was lost, or somebody fenced off.
func (r Round) telling(ctx context.Context, till *Till, injector *Injector) bool {
	if r.Order == Two && r.Fenced {
		return injector.FencedOff() > 0
	}
	committed, counted, err := till.Totals(ctx)
	return err == nil && (r.Fenced || committed > counted)
}

// employ runs one teller to its end. Its holders are struck while ctx lasts; struck is called after each time.
func employ(ctx context.Context, config TellerConfig, injector *Injector, struck func()) (tally Tally, err error) {
	teller, err := child.Start(config.Name, tellerArg, config)
	if err != nil {
		return tally, err
	}
	defer func() { err = errors.Join(err, teller.Stop()) }()
	over := ctx.Done()
	late := make(<-chan time.Time)
	for {
		select {
		case <-over:
			teller.Say("stop")
			over, late = nil, time.After(farewellFor)
		case <-late:
			return tally, fmt.Errorf("%s does not come to its end", config.Name)
		case line, ok := <-teller.Lines:
			if !ok {
				return tally, fmt.Errorf("%s ended without a word", config.Name)
			}
			id, inside := strings.CutPrefix(line, sayInside+" ")
			switch {
			case line == sayFenced:
				injector.Fenced()
			case !inside:
				return tally, json.Unmarshal([]byte(line), &tally)
			case over == nil: // it has been told to stop and goes on by itself
			default:
				if err := injector.Strike(context.WithoutCancel(ctx), teller, id); err != nil {
					return tally, err
				}
				struck()
			}
		}
	}
}
