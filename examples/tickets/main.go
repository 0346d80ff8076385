// Command tickets is a ticket hall: four windows sell the same hundred tickets, in order, each of them once.
//
//	go run ./examples/tickets
//
// It shows the smallest use of latchkey: a method that goes wrong when two goroutines are in it at once, wrapped so that
// they never are. The lock's key comes from the method's argument: the windows of another show would not wait.
//
//	[{1 A} {2 B} {3 C} {4 D} {5 A} {6 B} {7 C} {8 D} {9 A} {10 B}]
//	100 tickets, in order, each sold once
//
// These locks live in the memory of one process. For windows in many processes, the tickets move to a
// database, as in the seckill example, and only the store changes:
//
//	locks := latchkey.New(redisstore.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"})))
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Request is a customer at a window.
type Request struct{ Show, Window string }

// Sale is a ticket sold.
type Sale struct {
	Ticket int
	Window string
}

// Hall sells tickets 1 to Tickets. Nothing in it is safe for concurrent use.
type Hall struct {
	Tickets int
	Sold    []Sale
}

// Sell sells the next ticket.
func (h *Hall) Sell(_ context.Context, req Request) (Sale, error) {
	sale := Sale{Ticket: len(h.Sold) + 1, Window: req.Window}
	if sale.Ticket > h.Tickets {
		return Sale{}, errors.New("sold out")
	}
	time.Sleep(100 * time.Microsecond) // the printer
	h.Sold = append(h.Sold, sale)
	return sale, nil
}

// Open opens the windows, and returns when all have closed because the tickets are gone.
func (h *Hall) Open(windows ...string) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	sell := latchkey.Func(locks.WithLock("show:#{param.show}", latchkey.WaitForever()), h.Sell)

	var wg sync.WaitGroup
	for _, window := range windows {
		wg.Go(func() {
			for err := error(nil); err == nil; {
				_, err = sell(context.Background(), Request{Show: "matinee", Window: window})
			}
		})
	}
	wg.Wait()
}

// Check returns an error unless every ticket was sold once, in order.
func (h *Hall) Check() error {
	for i, sale := range h.Sold {
		if sale.Ticket != i+1 {
			return fmt.Errorf("window %s sold ticket %d when it was the turn of %d", sale.Window, sale.Ticket, i+1)
		}
	}
	if len(h.Sold) != h.Tickets {
		return fmt.Errorf("%d of %d tickets sold", len(h.Sold), h.Tickets)
	}
	return nil
}

func main() {
	hall := &Hall{Tickets: 100}
	hall.Open("A", "B", "C", "D")

	for row := range slices.Chunk(hall.Sold, 10) {
		fmt.Println(row)
	}
	if err := hall.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "tickets:", err)
		os.Exit(1)
	}
	fmt.Println("100 tickets, in order, each sold once")
}
