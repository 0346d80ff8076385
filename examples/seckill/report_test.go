package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// goodReport is a run as it should be.
func goodReport() Report {
	sale := Sale{Bottles: 100, Buyers: 2000, Shops: 4}
	result := func(guard Guard, sold, left int) Result {
		return Result{
			Guard: guard, Sale: sale, Sold: sold, Left: left, Killed: "shop 2",
			Requests: 2000, Took: time.Second, P50: 3 * time.Millisecond, P99: 2 * time.Second, Pause: 2 * time.Second,
		}
	}
	return Report{result(NoLock, 1950, 80), result(Mutex, 312, 0), result(Latchkey, 100, 0)}
}

func TestVerdict(t *testing.T) {
	const none, mutex, locked = 0, 1, 2
	for name, c := range map[string]struct {
		change func(Report)
		code   int
		says   string
	}{
		"all as it should be":             {func(Report) {}, 0, "latchkey sold each of the 100 bottles once"},
		"latchkey sells one too many":     {func(r Report) { r[locked].Sold = 101 }, 1, "101 of 100 bottles: 1 too many"},
		"latchkey sells one too few":      {func(r Report) { r[locked].Sold, r[locked].Left = 99, 1 }, 1, "there were buyers left"},
		"a bottle vanishes":               {func(r Report) { r[locked].Sold = 99 }, 1, "though there were buyers left"},
		"the stock is off":                {func(r Report) { r[locked].Left = 1 }, 1, "the stock says that 1 are left"},
		"no lock, and nothing oversold":   {func(r Report) { r[none].Sold = 100 }, 1, "proves nothing about having one"},
		"nobody was killed":               {func(r Report) { r[locked].Killed = "" }, 1, "proves nothing about crashes"},
		"the mutex happens to hold":       {func(r Report) { r[mutex].Sold = 100 }, 0, "latchkey sold each"},
		"the mutex does not, as expected": {func(Report) {}, 0, "The in-process mutex oversells too"},
	} {
		t.Run(name, func(t *testing.T) {
			report := goodReport()
			c.change(report)
			var out bytes.Buffer
			if code := report.Print(&out); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("does not say %q:\n%s", c.says, &out)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	goodReport().Print(&out)
	table, _, _ := strings.Cut(out.String(), "\n\n")
	const want = "" +
		"round              sold  stock left  oversold  requests/s      p50      p99\n" +
		"without a lock     1950          80      1850        2000     3 ms   2.00 s\n" +
		"in-process mutex    312           0       212        2000     3 ms   2.00 s\n" +
		"latchkey            100           0         0        2000     3 ms   2.00 s"
	if table != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
}

// The control: a real sale under a guard that does not guard must not pass for latchkey's.
func TestARealOversaleFails(t *testing.T) {
	ctx := context.Background()
	backend, err := openBackend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	for _, broken := range []Guard{NoLock, Mutex} {
		result, err := holdSale(ctx, Sale{Bottles: 20, Buyers: 300, Shops: 3}, broken, backend, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		report := goodReport()
		report[2] = result
		report[2].Guard = Latchkey
		var out bytes.Buffer
		if code := report.Print(&out); code != 1 || !strings.Contains(out.String(), "too many") {
			t.Errorf("%s in latchkey's place: exit code %d\n%s", broken, code, &out)
		}
	}
}
