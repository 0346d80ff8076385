// Command orders is one service with two faces: orders are paid over HTTP and over gRPC, in parts, and both faces lock the
// order that a payment is for, by the same key, in the same store.
//
//	go run ./examples/orders
//
// The payments are made by code that reads what has been paid, thinks about it, and writes more (shop.go). A load
// generator (load.go) has 32 clients, half of them on each face, pay eight orders at once and in excess: first on faces
// without a lock, then on faces that run each payment in a transaction under a lock. The lock is one line in http.go and
// one option in orderspb/orders.proto. The exit code is 1 if an order is paid too often or too little under the lock, and
// also if none is paid too often without it, for then the table shows nothing.
//
//	go run ./examples/orders -serve
//
// keeps the second service up and prints the lines for curl and grpcurl. Nothing has to be installed: the program brings
// its own Redis (miniredis) and database (SQLite in a temporary directory). REDIS_URL=redis://… uses a real Redis.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 2 if the arguments make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(stderr)
	serve := flags.Bool("serve", false, "keep the service up instead of measuring it")
	httpAddr := flags.String("http", "127.0.0.1:8080", "where -serve listens for HTTP")
	grpcAddr := flags.String("grpc", "127.0.0.1:9090", "where -serve listens for gRPC")
	load := Load{Orders: 8, Total: 40, Clients: 32}
	flags.IntVar(&load.Total, "total", load.Total, "how much is to be paid for each order, one at a time")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil || flags.NArg() > 0 || load.Total < 1:
		return 2
	}
	var err error
	if *serve {
		err = keepUp(ctx, *httpAddr, *grpcAddr, stdout)
	} else {
		err = measure(ctx, load, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "orders:", err)
		return 1
	}
	return 0
}

// keepUp serves until ctx ends.
func keepUp(ctx context.Context, httpAddr, grpcAddr string, stdout io.Writer) error {
	s, err := Open(ctx, true, httpAddr, grpcAddr)
	if err != nil {
		return err
	}
	if err := s.Shop.Fill(ctx, 8, 100); err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(stdout, `Orders 1 to 8 are to be paid. While the first line thinks the next two wait, five seconds at most:

  curl -i -X POST http://%[1]s/orders/1/pay -d '{"amount": 3, "think": "10s"}'
  curl -i -X POST http://%[1]s/orders/1/pay -d '{"amount": 3}'
  grpcurl -plaintext -d '{"order_id": "1", "amount": 3}' %[2]s orders.v1.Orders/Pay
  curl -i http://%[1]s/orders/1
  grpcurl -plaintext -d '{"order_id": "1"}' %[2]s orders.v1.Orders/Get

`, s.HTTPAddr, s.GRPCAddr)
	<-ctx.Done()
	return s.Close()
}
