package main

import (
	"context"
	"errors"
	"time"
)

// Order is what a buyer asks for.
type Order struct {
	SKU   string `json:"sku"`
	Buyer int    `json:"buyer"`
}

// Receipt is what a buyer gets.
type Receipt struct {
	SKU    string `json:"sku"`
	Bottle int    `json:"bottle"`
}

// ErrSoldOut is returned when the stock is gone.
var ErrSoldOut = errors.New("sold out")

// thinkTime is what a real shop spends between looking at the stock and writing it: prices, limits, a fraud check.
const thinkTime = 2 * time.Millisecond

// Shop sells bottles out of a ledger that it shares with the other shops.
type Shop struct {
	ledger  *Ledger
	freezer *Freezer
}

// Buy sells one bottle. It is the code that everybody writes first: read the stock, think, write back one less. Two
// callers who read the same number sell the same bottle twice. Nothing in here knows about locks.
func (s *Shop) Buy(ctx context.Context, order Order) (Receipt, error) {
	stock, err := s.ledger.Stock(ctx, order.SKU)
	if err != nil {
		return Receipt{}, err
	}
	if stock == 0 {
		return Receipt{}, ErrSoldOut
	}
	s.think(ctx)
	if err := s.ledger.Record(ctx, order, stock-1); err != nil {
		return Receipt{}, err
	}
	return Receipt{SKU: order.SKU, Bottle: stock}, nil
}

func (s *Shop) think(ctx context.Context) {
	time.Sleep(thinkTime)
	s.freezer.Pass(ctx) // where a shop dies, if it is the one to die
}
