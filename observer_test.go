package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
)

// diary is an observer that writes down what it hears.
type diary struct {
	mu     sync.Mutex
	events []latchkey.Event
}

func (d *diary) Observe(_ context.Context, e latchkey.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// count returns how many events of a kind were heard since the last take.
func (d *diary) count(kind latchkey.EventKind) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// await waits until n events of a kind have been heard.
func (d *diary) await(t *testing.T, kind latchkey.EventKind, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); d.count(kind) < n; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("heard %d events %q, want %d", d.count(kind), kind, n)
		}
	}
}

// take returns the kinds heard since the last call, and the events themselves.
func (d *diary) take() (kinds []latchkey.EventKind, events []latchkey.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events, d.events = d.events, nil
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds, events
}

func TestTheObserverHearsTheLifeOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		d := &diary{}
		locks := latchkey.New(store, latchkey.Observe(d))
		expect := func(name string, want ...latchkey.EventKind) []latchkey.Event {
			t.Helper()
			synctest.Wait()
			kinds, events := d.take()
			if !slices.Equal(kinds, want) {
				t.Errorf("%s: heard %v, want %v", name, kinds, want)
			}
			return events
		}

		lease := acquire(t.Context(), t, locks, "k", latchkey.RenewedLease(3*time.Second))
		expect("acquire", latchkey.EventAcquired)
		release(t, acquire(lease.Context(), t, locks, "k"))
		expect("enter", latchkey.EventReentered)
		time.Sleep(time.Second)
		expect("renew", latchkey.EventRenewed)

		if _, err := locks.Acquire(t.Context(), "k"); !errors.Is(err, latchkey.ErrBusy) {
			t.Error(err)
		}
		if e := expect("refuse", latchkey.EventRefused); len(e) == 1 && !errors.Is(e[0].Err, latchkey.ErrBusy) {
			t.Errorf("refused with %v", e[0].Err)
		}

		release(t, lease)
		if e := expect("release", latchkey.EventReleased); len(e) == 1 && e[0].Duration != time.Second {
			t.Errorf("held for %v, want 1 s", e[0].Duration)
		}
		lease = acquire(t.Context(), t, locks, "k", latchkey.RenewedLease(3*time.Second))
		expect("acquire for the next", latchkey.EventAcquired)
		go func() {
			release(t, acquire(t.Context(), t, locks, "k", latchkey.WaitForever(), latchkey.RenewedLease(3*time.Second)))
		}()
		expect("wait", latchkey.EventWaiting)
		time.Sleep(50 * time.Millisecond)
		release(t, lease)
		events := expect("hand over", latchkey.EventReleased, latchkey.EventHandedOver, latchkey.EventReleased)
		if len(events) == 3 && events[1].Duration != 50*time.Millisecond {
			t.Errorf("waited for %v, want 50 ms", events[1].Duration)
		}

		store.breakBefore(func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpRenew || op.Kind == latchkey.OpRelease {
				return errInjected
			}
			return nil
		})
		lease = acquire(t.Context(), t, locks, "k", latchkey.RenewedLease(3*time.Second))
		expect("acquire again", latchkey.EventAcquired)
		if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrStore) || !errors.Is(err, errInjected) {
			t.Error(err)
		}
		expect("release without an answer", latchkey.EventReleased, latchkey.EventReleaseFailed)
		time.Sleep(10 * time.Second)

		lease = acquire(t.Context(), t, locks, "k", latchkey.RenewedLease(3*time.Second))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		kinds, _ := d.take()
		n := len(kinds)
		if n < 4 || kinds[0] != latchkey.EventAcquired || kinds[1] != latchkey.EventRenewFailed || kinds[n-1] != latchkey.EventLost {
			t.Errorf("loss: heard %v", kinds)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Error(err)
		}
		store.breakBefore(nil)
		time.Sleep(10 * time.Second)
	})
}

func TestEventsNameTheTemplateAndTheKey(t *testing.T) {
	d := &diary{}
	locks := latchkey.New(newFaultStore(), latchkey.Namespace("shop"), latchkey.Observe(d))
	f := latchkey.Action(locks.WithLock("#{param.items}", latchkey.Prefix("sku")), func(context.Context, purchase) error { return nil })
	if err := f(t.Context(), purchase{Items: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	_, events := d.take()
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Template, " ", e.Key))
	}
	want := []string{"acquired #{param.items} sku:a", "acquired #{param.items} sku:b", "released #{param.items} sku:b", "released #{param.items} sku:a"}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}
