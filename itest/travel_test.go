//go:build unix

package itest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

// The proof of a lease is checked by a script of the server: a callee enters its caller's lock, is told when that is
// released, and the proof is worthless then.
func TestALeaseTravelsThroughRedis(t *testing.T) {
	srv := testenv.Redis(t)
	a, b := connect(t, srv.Addr()), connect(t, srv.Addr())
	held := a.take(t, "order", latchkey.RenewedLease(3*time.Second))
	text := latchkey.ExportLeases(held.Context())
	arrived := latchkey.ImportLeases(t.Context(), text)

	entered, err := b.Acquire(arrived, "order")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), "order"); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("control: without the proof: %v", err)
	}
	select {
	case <-entered.Context().Done():
		t.Errorf("lost while the caller held it: %v", context.Cause(entered.Context()))
	case <-time.After(4 * time.Second): // longer than a lease and several checks
	}
	release(t, held)
	select {
	case <-entered.Context().Done():
		if cause := context.Cause(entered.Context()); !errors.Is(cause, latchkey.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
	case <-time.After(10 * time.Second):
		t.Error("the callee was not told that the lock had been released")
	}
	if err := entered.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
		t.Errorf("Release: %v", err)
	}

	next := a.take(t, "order")
	if _, err := b.Acquire(arrived, "order"); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("with the old proof, when somebody else holds it: %v", err)
	}
	release(t, next)
	nothingLeft(t, srv)
}
