package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey/examples/orders/orderspb"
)

// Load is how much is asked of a service.
type Load struct {
	Orders  int // to be paid
	Total   int // of each, one at a time
	Clients int // at once, half of them on each face
}

// answer is what became of a payment.
type answer int

const (
	paid answer = iota
	refused
	busy
	failed
	answers
)

// Result is what a service did under a load.
type Result struct {
	Round                        string
	HTTP, GRPC                   [answers]int64
	Wanted                       int64 // of all orders together
	Received, TooMuch, Forgotten int64
	Took                         time.Duration
	P50, P99                     time.Duration
}

// Run pays every order, and half of it again.
func (l Load) Run(ctx context.Context, round string, s *Service) (Result, error) {
	r := Result{Round: round, Wanted: int64(l.Orders * l.Total)}
	if err := s.Shop.Fill(ctx, l.Orders, l.Total); err != nil {
		return r, err
	}
	conn, err := grpc.NewClient(s.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return r, err
	}
	defer conn.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: l.Clients}
	defer transport.CloseIdleConnections()
	faces := []struct {
		counts *[answers]int64
		pay    func(ctx context.Context, order string) answer
	}{
		{&r.HTTP, payHTTP(&http.Client{Transport: transport}, s.HTTPAddr)},
		{&r.GRPC, payGRPC(orderspb.NewOrdersClient(conn))},
	}

	var next atomic.Int64
	calls := int64(l.Orders * l.Total * 3 / 2)
	times := make([]time.Duration, calls)
	start := time.Now()
	var clients sync.WaitGroup
	for i := range l.Clients {
		face := faces[i%len(faces)]
		clients.Go(func() {
			for n := next.Add(1) - 1; n < calls && ctx.Err() == nil; n = next.Add(1) - 1 {
				began := time.Now()
				a := face.pay(ctx, fmt.Sprint(n%int64(l.Orders)+1))
				times[n] = time.Since(began)
				atomic.AddInt64(&face.counts[a], 1)
			}
		})
	}
	clients.Wait()
	r.Took = time.Since(start)
	slices.Sort(times)
	r.P50, r.P99 = times[calls/2], times[calls*99/100]
	r.Received, r.TooMuch, r.Forgotten, err = s.Shop.Received(ctx)
	return r, errors.Join(err, ctx.Err())
}

func payHTTP(client *http.Client, addr string) func(context.Context, string) answer {
	return func(ctx context.Context, order string) answer {
		url := "http://" + addr + "/orders/" + order + "/pay"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"amount": 1}`))
		if err != nil {
			return failed
		}
		resp, err := client.Do(req)
		if err != nil {
			return failed
		}
		_ = resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			return paid
		case http.StatusUnprocessableEntity:
			return refused
		case http.StatusConflict:
			return busy
		}
		return failed
	}
}

func payGRPC(client orderspb.OrdersClient) func(context.Context, string) answer {
	return func(ctx context.Context, order string) answer {
		_, err := client.Pay(ctx, &orderspb.PayRequest{OrderId: order, Amount: 1})
		switch status.Code(err) {
		case codes.OK:
			return paid
		case codes.FailedPrecondition:
			return refused
		case codes.Aborted:
			return busy
		}
		return failed
	}
}
