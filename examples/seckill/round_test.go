package main

import (
	"context"
	"io"
	"testing"
	"time"
)

func TestTheSaleGoesOnWhenTheKilledShopsLeaseEnds(t *testing.T) {
	ctx := context.Background()
	backend, err := openBackend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	sale := Sale{Bottles: 20, Buyers: 60, Shops: 2}
	result, err := holdSale(ctx, sale, Latchkey, backend, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if result.Sold != 20 || result.Left != 0 {
		t.Errorf("%d bottles sold, %d left, want 20 and 0", result.Sold, result.Left)
	}
	if result.Killed == "" || result.Pause < lease/2 {
		t.Errorf("killed %q, longest pause %v: the shop that was killed did not hold the lock", result.Killed, result.Pause)
	}

	// The control: a sale in good order must not pass for the one without a lock.
	report := goodReport()
	report[0] = result
	report[0].Guard = NoLock
	if code := report.Print(io.Discard); code != 1 {
		t.Errorf("nothing is oversold in the sale without a lock, and the exit code is %d", code)
	}
}

func TestPercentile(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for i := range sorted {
		sorted[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{50: 51, 99: 100, 100: 100} {
		if got := percentile(sorted, p); got != want {
			t.Errorf("p%d of 1 to 100 is %d, want %d", p, got, want)
		}
	}
	if got := percentile(sorted[:1], 99); got != 1 {
		t.Errorf("p99 of one value is %d, want that value", got)
	}
}
