package main

import (
	"context"
	"errors"
	"fmt"
)

// Street is the shops of one round.
type Street []*ShopProcess

// openStreet opens n shops, all with the same guard, at the same time.
func openStreet(ctx context.Context, n int, config ShopConfig) (Street, error) {
	type opened struct {
		shop *ShopProcess
		err  error
	}
	results := make(chan opened, n)
	for i := range n {
		config := config
		config.Name = fmt.Sprintf("shop %d", i+1)
		go func() {
			shop, err := startShop(ctx, config)
			results <- opened{shop, err}
		}()
	}
	var street Street
	var errs []error
	for range n {
		if r := <-results; r.err != nil {
			errs = append(errs, r.err)
		} else {
			street = append(street, r.shop)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, street.Close())...)
	}
	return street, nil
}

// Close lets every shop go home.
func (s Street) Close() error {
	errs := make(chan error, len(s))
	for _, shop := range s {
		go func() { errs <- shop.Stop() }()
	}
	all := make([]error, len(s))
	for i := range all {
		all[i] = <-errs
	}
	return errors.Join(all...)
}

// At returns the first shop that is still there, looking from the i-th on; nil if there is none.
func (s Street) At(i int) *ShopProcess {
	for j := range s {
		if shop := s[(i+j)%len(s)]; shop.Alive() {
			return shop
		}
	}
	return nil
}

// KillOne kills the first shop that has a buyer in the middle of Buy, and returns it; nil if ctx ends before there is one.
// Under latchkey that shop holds the lock, as nobody else can be in the middle of Buy.
func (s Street) KillOne(ctx context.Context) *ShopProcess {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	frozen := make(chan *ShopProcess, len(s))
	for _, shop := range s {
		go func() {
			select {
			case _, ok := <-shop.Lines:
				if ok {
					frozen <- shop
				}
			case <-ctx.Done():
			}
		}()
		shop.Say(sayFreeze)
	}
	var victim *ShopProcess
	select {
	case victim = <-frozen:
		victim.Kill()
	case <-ctx.Done():
	}
	for _, shop := range s {
		if shop != victim {
			shop.Say(sayThaw)
		}
	}
	return victim
}

// Open counts the shops that are still there.
func (s Street) Open() (n int) {
	for _, shop := range s {
		if shop.Alive() {
			n++
		}
	}
	return n
}
