package latchkey_test

import (
	"errors"
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
