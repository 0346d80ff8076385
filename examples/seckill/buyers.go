package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sku is the one thing for sale.
const sku = "moutai"

const (
	atTheDoor = 200                   // buyers who are in the street at the same time
	stroll    = 20 * time.Millisecond // from a shop that had no answer to the next
	patience  = 200                   // shops a buyer asks before the sale is called off
)

// Crowd is the buyers of one round and what became of them.
type Crowd struct {
	street Street
	buyers int
	client *http.Client

	next     atomic.Int64 // the next buyer to come
	requests atomic.Int64 // answers from shops
	served   atomic.Int64 // buyers who have a bottle or know that there is none
	waits    []time.Duration
	sales    Sales
}

func newCrowd(street Street, buyers int) *Crowd {
	return &Crowd{
		street: street,
		buyers: buyers,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atTheDoor}},
		waits:  make([]time.Duration, buyers),
	}
}

// Rush lets all the buyers in, so many at a time, and returns when each has got an answer.
func (c *Crowd) Rush(ctx context.Context) error {
	defer c.client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var wg sync.WaitGroup
	for range atTheDoor {
		wg.Go(func() {
			for buyer := int(c.next.Add(1)) - 1; buyer < c.buyers; buyer = int(c.next.Add(1)) - 1 {
				came := time.Now()
				if err := c.buy(ctx, buyer); err != nil {
					cancel(err)
					return
				}
				c.waits[buyer] = time.Since(came)
				c.served.Add(1)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// buy goes from shop to shop until one has sold the buyer a bottle or said that there is none left.
func (c *Crowd) buy(ctx context.Context, buyer int) error {
	last := errors.New("there was none")
	for try := range patience {
		shop := c.street.At(buyer + try)
		if shop == nil {
			return fmt.Errorf("every shop is closed; the last answer was: %w", last)
		}
		status, err := c.ask(ctx, shop, buyer)
		switch {
		case status == http.StatusOK:
			c.sales.Note(time.Now())
			return nil
		case status == http.StatusGone:
			return nil
		case err != nil:
			last = fmt.Errorf("%s: %w", shop.Name, err) // as when it is killed
		default:
			last = fmt.Errorf("%s: %s", shop.Name, http.StatusText(status)) // as when the lock is busy for too long
		}
		select {
		case <-time.After(stroll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("buyer %d found no answer in %d tries: %w", buyer, patience, last)
}

// ask is one request.
func (c *Crowd) ask(ctx context.Context, shop *ShopProcess, buyer int) (status int, err error) {
	body, err := json.Marshal(Order{SKU: sku, Buyer: buyer})
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, shop.URL+"/buy", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	c.requests.Add(1)
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection can be used again
	return answer.StatusCode, nil
}
