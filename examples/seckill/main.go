// Command seckill is a flash sale: 100 bottles of liquor, four shops, two thousand buyers at the door.
//
//	go run ./examples/seckill
//
// Every shop is a process of its own that sells over HTTP out of one SQL table, by code that reads the stock, thinks
// about it, and writes back one less. The sale is held three times: without a lock, with a sync.Mutex in every shop, and
// with latchkey, which also puts all of it into one transaction. In the middle of each sale one shop is killed (kill -9),
// under latchkey while it holds the lock.
//
//	round              sold  stock left  oversold  requests/s      p50      p99
//	without a lock     2000          84      1900        2683    50 ms   270 ms
//	in-process mutex    317           0       217        3633    27 ms   336 ms
//	latchkey            100           0         0         683    85 ms   2.39 s
//
//	latchkey sold each of the 100 bottles once.
//	One shop (shop 3) was killed holding the lock: the sale stood still for 1.95 s, then went on. The lease is 2s.
//	The in-process mutex oversells too: it holds inside one process, and there are 4 of them.
//
// What to read, in this order: shop.go, the naive code that needs a lock; guards.go, the one line that gives it one;
// buyers.go and round.go, what happens to it then. The exit code is 1 if latchkey sells one bottle too many or too few,
// and also if the sale without a lock sells none too many, for then the other rounds prove nothing.
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
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == shopArg {
		os.Exit(shopMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run holds the three sales, prints the table, and returns the exit code: 0 if the sales came out as they should, 1 if
// they did not or could not be held, 2 if the arguments make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	sale, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	report, err := holdSales(ctx, sale, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", err)
		return 1
	}
	return report.Print(stdout)
}

// holdSales runs the three rounds, one after the other, on one Redis and one database.
func holdSales(ctx context.Context, sale Sale, stderr io.Writer) (report Report, err error) {
	backend, err := openBackend(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()

	for _, guard := range []Guard{NoLock, Mutex, Latchkey} {
		result, err := holdSale(ctx, sale, guard, backend, stderr)
		if err != nil {
			return report, fmt.Errorf("%s: %w", guard, err)
		}
		report = append(report, result)
	}
	return report, nil
}

// Sale is how much of what there is to a sale.
type Sale struct {
	Bottles int // in stock when the doors open
	Buyers  int // each wants one
	Shops   int // processes; one of them is killed
}

func parse(args []string, stderr io.Writer) (Sale, error) {
	var sale Sale
	flags := flag.NewFlagSet("seckill", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&sale.Bottles, "bottles", 100, "bottles in stock")
	flags.IntVar(&sale.Buyers, "buyers", 2000, "buyers, each of whom wants one bottle")
	flags.IntVar(&sale.Shops, "shops", 4, "shop processes, one of which is killed during the sale")
	flags.Usage = func() {
		fmt.Fprint(stderr, "seckill sells bottles without a lock, with an in-process mutex and with latchkey.\n\n")
		flags.PrintDefaults()
		fmt.Fprint(stderr, "\nREDIS_URL and DATABASE_URL (postgres://… or a SQLite file) replace the built-in servers.\n")
	}
	if err := flags.Parse(args); err != nil {
		return sale, err
	}
	err := sale.check(flags.NArg())
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", err)
	}
	return sale, err
}

func (s Sale) check(extraArgs int) error {
	switch {
	case extraArgs > 0:
		return errors.New("takes flags only; see -h")
	case s.Bottles < 10:
		return errors.New("-bottles: at least 10, so that one shop can die in the middle of the sale")
	case s.Buyers < 2*s.Bottles:
		return errors.New("-buyers: at least two for every bottle, or there is no rush")
	case s.Shops < 2:
		return errors.New("-shops: at least 2, because one is killed")
	}
	return nil
}
