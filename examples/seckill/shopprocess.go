package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/examples/internal/child"
)

// ShopProcess is the sale's end of one shop.
type ShopProcess struct {
	*child.Process

	URL string
}

// startShop runs this program again as a shop, and returns when it is open.
func startShop(ctx context.Context, config ShopConfig) (*ShopProcess, error) {
	process, err := child.Start(config.Name, shopArg, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	select {
	case url, ok := <-process.Lines:
		if ok {
			return &ShopProcess{Process: process, URL: url}, nil
		}
		err = fmt.Errorf("%s did not open", config.Name)
	case <-ctx.Done():
		err = fmt.Errorf("%s did not open: %w", config.Name, ctx.Err())
	}
	return nil, errors.Join(err, process.Stop())
}
