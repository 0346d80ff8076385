package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/examples/internal/child"
)

// fakeShop is a shop in this process.
func fakeShop(t *testing.T, name string, handler http.HandlerFunc) *ShopProcess {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &ShopProcess{Process: &child.Process{Name: name, Exited: make(chan struct{})}, URL: server.URL}
}

func TestBuyersGoToAnotherShop(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"when one is busy":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) },
		"when one has a problem": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"when one hangs up":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var stock atomic.Int64
			stock.Store(10)
			good := func(w http.ResponseWriter, _ *http.Request) {
				if stock.Add(-1) < 0 {
					w.WriteHeader(http.StatusGone)
				}
			}
			crowd := newCrowd(Street{fakeShop(t, "broken", broken), fakeShop(t, "good", good)}, 50)
			enough := crowd.sales.Reached(3)
			if err := crowd.Rush(context.Background()); err != nil {
				t.Fatal(err)
			}
			if sold, served := crowd.sales.Count(), crowd.served.Load(); sold != 10 || served != 50 {
				t.Errorf("%d bottles sold, %d buyers served, want 10 and 50", sold, served)
			}
			select {
			case <-enough:
			default:
				t.Error("the third sale went unnoticed")
			}
		})
	}
}

func TestASaleWithoutShopsEnds(t *testing.T) {
	shop := fakeShop(t, "shop 1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
	crowd := newCrowd(Street{shop}, 5)
	time.AfterFunc(50*time.Millisecond, func() { close(shop.Exited) })
	err := crowd.Rush(context.Background())
	if err == nil || !strings.Contains(err.Error(), "every shop is closed") || !strings.Contains(err.Error(), "Conflict") {
		t.Errorf("got %v, want an error that says that every shop is closed, and what the last one said", err)
	}
}

func TestPauseIsTheLongestGapBetweenSales(t *testing.T) {
	var sales Sales
	start := time.Now()
	for _, after := range []time.Duration{5 * time.Second, 6 * time.Second, 9 * time.Second, 10 * time.Second} {
		sales.Note(start.Add(after))
	}
	if sales.Count() != 4 || sales.Pause() != 3*time.Second {
		t.Errorf("%d sales, longest pause %v, want 4 and 3s", sales.Count(), sales.Pause())
	}
}
