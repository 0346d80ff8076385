package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/examples/internal/child"
	"github.com/latchkey-go/latchkey/examples/internal/servers"
)

// shopArg is the argument that makes this program a shop instead of the sale.
const shopArg = "shop"

// What is said through the pipes between the sale and a shop, after the configuration and the shop's address.
const (
	sayFreeze = "freeze" // to the shop: stop the next buyer in the middle of Buy
	sayFrozen = "frozen" // from the shop: one is stopped now
	sayThaw   = "thaw"   // to the shop: never mind
)

// farewell is how long a shop may take to close after its standard input has ended.
const farewell = 3 * time.Second

// ShopConfig is the first line on a shop's standard input.
type ShopConfig struct {
	Name        string `json:"name"`
	Guard       Guard  `json:"guard"`
	Run         string `json:"run"`
	RedisURL    string `json:"redisUrl"`
	DatabaseURL string `json:"databaseUrl"`
}

// shopMain is a shop process. It sells until its standard input ends, which the kernel sees to when the sale's process
// goes away, however it goes.
func shopMain() int {
	if err := keepShop(os.Stdin, os.Stdout); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

func keepShop(stdin io.Reader, stdout io.Writer) error {
	var config ShopConfig
	lines, err := child.Configured(stdin, &config)
	if err != nil {
		return fmt.Errorf("shop: %w", err)
	}
	log.SetFlags(0)
	log.SetPrefix(config.Name + ": ")

	db, err := servers.OpenDatabase(config.DatabaseURL)
	if err != nil {
		return err
	}
	defer db.Close()
	ledger := newLedger(db, config.Run)
	freezer := newFreezer(func() { fmt.Fprintln(stdout, sayFrozen) })
	buy, closeGuard, err := guarded(&Shop{ledger: ledger, freezer: freezer}, config)
	if err != nil {
		return err
	}
	defer closeGuard()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: counter(buy)}
	go func() { _ = server.Serve(listener) }() // ends with the Close below
	defer server.Close()
	fmt.Fprintln(stdout, "http://"+listener.Addr().String())

	for lines.Scan() {
		switch lines.Text() {
		case sayFreeze:
			freezer.Freeze()
		case sayThaw:
			freezer.Thaw()
		}
	}
	time.AfterFunc(farewell, func() { os.Exit(1) })
	return lines.Err()
}

// guarded puts the round's guard around the shop's Buy.
func guarded(shop *Shop, config ShopConfig) (buy BuyFunc, closeGuard func(), err error) {
	switch config.Guard {
	case NoLock:
		return shop.Buy, func() {}, nil
	case Mutex:
		return withMutex(shop), func() {}, nil
	case Latchkey:
		rdb, err := servers.DialRedis(config.RedisURL)
		if err != nil {
			return nil, nil, err
		}
		locks := newLocks(rdb, config.Run)
		return withLatchkey(locks, shop), func() { locks.Close(); _ = rdb.Close() }, nil
	}
	return nil, nil, fmt.Errorf("unknown guard %q", config.Guard)
}

// counter is where buyers are served: POST /buy with an Order, answered with a Receipt.
func counter(buy BuyFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, "not an order", http.StatusBadRequest)
			return
		}
		receipt, err := buy(r.Context(), order)
		if err != nil {
			refuse(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(receipt)
	})
	return mux
}

// refuse tells a buyer why there is no bottle: the errors of the shop and of the lock, as HTTP has them.
func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrSoldOut):
		http.Error(w, "sold out", http.StatusGone)
	case errors.Is(err, latchkey.ErrBusy):
		http.Error(w, "too many buyers, come again", http.StatusConflict)
	case errors.Is(err, context.Canceled): // the buyer hung up
	default:
		log.Print(err)
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	}
}
