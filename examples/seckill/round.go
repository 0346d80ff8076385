package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// roundLimit ends a round that does not end by itself.
const roundLimit = time.Minute

// Result is one line of the table.
type Result struct {
	Guard    Guard
	Sale     Sale
	Sold     int // orders in the database, which is what counts
	Left     int // stock in the database
	Requests int // answered by shops
	Took     time.Duration
	P50, P99 time.Duration // from a buyer's first request to the answer
	Killed   string        // the shop that died in the middle of a sale
	Pause    time.Duration // the longest time without a sale
}

// Oversold is how many bottles were sold that did not exist.
func (r Result) Oversold() int { return max(0, r.Sold-r.Sale.Bottles) }

// holdSale holds one sale: fill the stock, open the shops, let the buyers in, kill one shop, count.
func holdSale(ctx context.Context, sale Sale, guard Guard, backend *Backend, stderr io.Writer) (result Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("not done after %v", roundLimit))
	defer cancel()

	if err := backend.Ledger.Refill(ctx, sku, sale.Bottles); err != nil {
		return result, err
	}
	street, err := openStreet(ctx, sale.Shops, ShopConfig{
		Guard: guard, Run: backend.Run, RedisURL: backend.RedisURL, DatabaseURL: backend.DatabaseURL,
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, street.Close()) }()

	crowd := newCrowd(street, sale.Buyers)
	victim := killAfter(ctx, street, crowd.sales.Reached(sale.Bottles/3))
	hideProgress := showProgress(stderr, guard, sale, crowd)

	start := time.Now()
	err = crowd.Rush(ctx)
	took := time.Since(start)
	hideProgress()
	killed := victim()
	if err != nil {
		return result, err
	}

	result = Result{
		Guard: guard, Sale: sale, Killed: killed,
		Requests: int(crowd.requests.Load()), Took: took, Pause: crowd.sales.Pause(),
	}
	slices.Sort(crowd.waits)
	result.P50, result.P99 = percentile(crowd.waits, 50), percentile(crowd.waits, 99)
	if result.Sold, err = backend.Ledger.Sold(ctx); err != nil {
		return result, err
	}
	result.Left, err = backend.Ledger.Stock(ctx, sku)
	return result, err
}

// killAfter kills one shop once the channel is closed. The function it returns calls that off if it hasn't come to it,
// and returns the victim's name.
func killAfter(ctx context.Context, street Street, enough <-chan struct{}) (victim func() string) {
	ctx, cancel := context.WithCancel(ctx)
	name := make(chan string, 1)
	go func() {
		defer close(name)
		select {
		case <-enough:
			if shop := street.KillOne(ctx); shop != nil {
				name <- shop.Name
			}
		case <-ctx.Done():
		}
	}()
	return func() string {
		cancel()
		return <-name
	}
}

// percentile returns the p-th of sorted values.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
