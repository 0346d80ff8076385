package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// measure runs the load on the service without locks, then on the one with, and prints what came out. The error says
// what should not have.
func measure(ctx context.Context, load Load, stdout io.Writer) error {
	var results []Result
	for _, guarded := range []bool{false, true} {
		round := "without a lock"
		if guarded {
			round = "latchkey"
		}
		s, err := Open(ctx, guarded, "127.0.0.1:0", "127.0.0.1:0")
		if err != nil {
			return err
		}
		r, err := load.Run(ctx, round, s)
		if err := errors.Join(err, s.Close()); err != nil {
			return fmt.Errorf("%s: %w", round, err)
		}
		results = append(results, r)
	}
	printTable(stdout, results)
	return judge(results[0], results[1])
}

func printTable(stdout io.Writer, results []Result) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "round\tpaid by HTTP\tby gRPC\trefused\tbusy\tfailed\tto be paid\treceived\ttoo much\tforgotten\t"+
		"calls/s\tp50\tp99\t")
	for _, r := range results {
		calls := int64(0)
		for a := range r.HTTP {
			calls += r.HTTP[a] + r.GRPC[a]
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%v\t%v\t\n", r.Round, r.HTTP[paid], r.GRPC[paid],
			r.HTTP[refused]+r.GRPC[refused], r.HTTP[busy]+r.GRPC[busy], r.HTTP[failed]+r.GRPC[failed],
			r.Wanted, r.Received, r.TooMuch, r.Forgotten, float64(calls)/r.Took.Seconds(),
			r.P50.Round(time.Millisecond), r.P99.Round(time.Millisecond))
	}
	_ = w.Flush()
}

// judge says what is wrong with the results.
func judge(control, locked Result) error {
	switch {
	case locked.TooMuch != 0 || locked.Forgotten != 0 || locked.Received != locked.Wanted:
		return fmt.Errorf("under the lock %d were received for orders of %d", locked.Received, locked.Wanted)
	case locked.HTTP[failed]+locked.GRPC[failed] > 0:
		return errors.New("calls failed under the lock")
	case locked.HTTP[paid] == 0 || locked.GRPC[paid] == 0:
		return errors.New("one of the faces did not get a payment in: the table shows nothing")
	case control.TooMuch == 0 && control.Forgotten == 0:
		return errors.New("nothing went wrong without the lock: the table shows nothing")
	}
	return nil
}
