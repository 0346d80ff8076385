package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
)

// payment is the body of a payment.
type payment struct {
	Amount int64  `json:"amount"`
	Think  string `json:"think"` // a duration: how long the shop thinks about it, to have time to look on
}

// httpFace serves the shop over HTTP. m is nil for the control: no lock, no transaction.
func httpFace(shop *Shop, locks *latchkey.Locks, m *latchkey.TxManager, think time.Duration) http.Handler {
	pay := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p payment
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, `a payment is {"amount": 1}`, http.StatusBadRequest)
			return
		}
		think := think
		if d, err := time.ParseDuration(p.Think); err == nil {
			think = d
		}
		order, err := shop.Pay(r.Context(), r.PathValue("id"), p.Amount, think)
		reply(w, order, err)
	}))
	if m != nil {
		pay = httpmw.New(locks.WithLock("order:#{path.id}", latchkey.Wait(5*time.Second), latchkey.Transactional(m)))(pay)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", pay)
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		order, err := shop.Get(r.Context(), r.PathValue("id"))
		reply(w, order, err)
	})
	return mux
}

func reply(w http.ResponseWriter, order Order, err error) {
	switch {
	case errors.Is(err, errNoOrder):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errTooMuch):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, "the payment failed", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(order) //nolint:errchkjson // a caller that is gone can't be told
	}
}
