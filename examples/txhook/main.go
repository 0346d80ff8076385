// Command txhook shows what becomes of updates under different orders of lock and transaction.
//
//	go run ./examples/txhook
//
// Four processes count up three counters in one SQL table, each counter under a lock in one Redis, by code that reads,
// thinks, and writes one more. Each transaction writes a line into a ledger as well: what was committed and can't be found
// in the counters is a lost update.
//
//	under load               acknowledged committed counted  lost
//	unlock before COMMIT              720       720     455   265
//	lock inside                       720       720     720     0
//	lock around                       720       720     720     0
//
//	under faults             acknowledged committed counted  lost stops deletions leases lost fenced off
//	lock around, by hand               79        88      30    58     6        12           9          0
//	lock inside                        86        86      70    16     6        12           7          0
//	lock inside, fenced                36        36      36     0     6        12           6          0
//	lock around                       134       134     118    16     6        12           8          0
//	lock around, fenced                49        49      49     0     6        12          12          0
//	lock around two                    69        69      58    11     6        12           9          0
//	lock around two, fenced            74        74      74     0     6        12           7         10
//
//	While leases live latchkey loses nothing. Whatever happens to them, fenced it loses nothing.
//
// The orders are in orders.go. In the first one, which most code has, the lock is let go before the transaction around it is
// committed. "Inside" is the same code in a transaction of latchkey's, which carries the lock to its end. "Around" is the
// option [latchkey.Transactional]. "Around two" reads in one transaction and writes in another, under one lock.
//
// Under load leases live. Under faults they last for 120 ms, and holders that have read and not yet written are struck:
// their process is stopped for longer than that (kill -STOP), or their lock is deleted in Redis behind their back. A stop
// alone harms only code that does not look at its lease, as "by hand": without fencing latchkey finds out before COMMIT
// and rolls back. A store that forgets harms whoever is not fenced. With one transaction the next holder waits for the fence
// of the one before; with two the one that was overtaken is fenced off.
//
// The exit code is 1 if latchkey loses an update while leases live, or fenced, and also if the others lose none or no
// lease was lost, for then the run proves nothing. So it is if the rounds are not done within 45 seconds (-limit).
//
// Nothing has to be installed: the program brings its own Redis (miniredis) and database (SQLite in a temporary
// directory). REDIS_URL=redis://… and DATABASE_URL=postgres://… (or the path of a SQLite file) use real ones; keys and
// tables then carry a name of this run alone, and are removed at its end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const defaultLimit = 45 * time.Second // for all rounds

func main() {
	if len(os.Args) == 2 && os.Args[1] == tellerArg {
		os.Exit(tellerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run holds the rounds, prints the table, and returns the exit code: 0 if the rounds came out as they should, 1 if they
// did not or could not be held, 2 if the arguments make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("txhook", flag.ContinueOnError)
	flags.SetOutput(stderr)
	calls := flags.Int("calls", 60, "calls of each of 4 processes for each of 3 counters, under load")
	faults := flags.Int("faults", 6, "stops of a process in each round under faults, and twice as many deletions of a lock")
	limit := flags.Duration("limit", defaultLimit, "how long the whole may take")
	flags.Usage = func() {
		fmt.Fprint(stderr, "txhook counts updates that are lost under different orders of lock and transaction.\n\n")
		flags.PrintDefaults()
		fmt.Fprint(stderr, "\nREDIS_URL and DATABASE_URL (postgres://… or a SQLite file) replace the built-in servers.\n")
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil && (flags.NArg() > 0 || *calls < 1 || *faults < 1 || *limit < 1):
		fmt.Fprintln(stderr, "txhook: takes flags only, and these are at least 1; see -h")
		return 2
	case err != nil:
		return 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("not done within %v (-limit)", *limit))
	defer cancel()
	report, err := holdAll(ctx, *calls, *faults, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "txhook:", err)
		return 1
	}
	return report.Verdict(stdout)
}

// holdAll holds the rounds, one after the other, on one Redis and one database, and writes a line about each.
func holdAll(ctx context.Context, calls, faults int, stdout io.Writer) (report Report, err error) {
	backend, err := openBackend(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	for _, round := range []Round{
		{Order: UnlockFirst},
		{Order: Inside},
		{Order: Around},
		{Order: ByHand, Faults: faults},
		{Order: Inside, Faults: faults},
		{Order: Inside, Faults: faults, Fenced: true},
		{Order: Around, Faults: faults},
		{Order: Around, Faults: faults, Fenced: true},
		{Order: Two, Faults: faults},
		{Order: Two, Faults: faults, Fenced: true},
	} {
		result, err := hold(ctx, backend, round, calls)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", result.title(), err)
		}
		report = append(report, result)
		report.PrintLast(stdout)
	}
	return report, nil
}
