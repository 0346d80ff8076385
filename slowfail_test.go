package latchkey_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
)

// A store that takes its time to fail was asked again when there was no time left for another answer.
func TestAStoreThatFailsSlowlyIsNotWaitedForBeyondTheOpTimeout(t *testing.T) {
	const opTimeout = time.Second
	for name, wait := range map[string]latchkey.HoldOption{"no wait": latchkey.Wait(0), "wait": latchkey.WaitForever()} {
		for _, takes := range []time.Duration{300 * time.Millisecond, 960 * time.Millisecond} {
			t.Run(name+" "+takes.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaultStore()
					store.breakBefore(func(op *latchkey.Op) error {
						if op.Kind != latchkey.OpAcquire {
							return nil
						}
						time.Sleep(takes)
						return errInjected
					})
					locks := latchkey.New(store, latchkey.OpTimeout(opTimeout))
					begin := time.Now()
					_, err := locks.Acquire(t.Context(), "k", wait)
					if took := time.Since(begin); took > opTimeout || took < opTimeout/2 || !errors.Is(err, latchkey.ErrStore) {
						t.Errorf("after %v: %v; want ErrStore within %v", took, err, opTimeout)
					}
					time.Sleep(time.Minute) // what is left to take back
				})
			})
		}
	}
}

// A request that waited to be sent for longer than its caller waited for the answer was sent all the same: after an outage
// the store was first kept busy with locks for callers who were long gone.
func TestARequestOfACallerWhoHasGivenUpIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore()
		back := make(chan struct{})
		var sent sync.Map
		store.breakBefore(func(op *latchkey.Op) error {
			if op.Kind == latchkey.OpAcquire {
				sent.Store(op.Key, true)
				<-back // as a server that stands still
			}
			return nil
		})
		locks := latchkey.New(store, latchkey.OpTimeout(time.Second))
		defer locks.Close()
		var stuck sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			stuck.Go(func() { _, _ = locks.Acquire(t.Context(), key) })
			synctest.Wait() // it is under way
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := locks.Acquire(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the end of the context", err)
		}
		close(back)
		stuck.Wait()
		time.Sleep(time.Minute) // what is left to take back
		if _, ok := sent.Load("latchkey:a"); !ok {
			t.Error("void: nothing was sent")
		}
		if _, ok := sent.Load("latchkey:c"); ok {
			t.Error("the request was sent though nobody waited for it any more")
		}
		if !free(t, store, "c") {
			t.Error("the lock is taken")
		}
	})
}
