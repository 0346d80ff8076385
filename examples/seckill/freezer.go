package main

import (
	"context"
	"sync/atomic"
)

// Freezer stops one buyer in the middle of Buy, so that a shop can be killed at the worst moment: when it has read the
// stock, holds the lock, and has not written yet.
type Freezer struct {
	armed  atomic.Bool
	thaw   chan struct{}
	frozen func() // called by the buyer who is stopped
}

func newFreezer(frozen func()) *Freezer {
	return &Freezer{thaw: make(chan struct{}, 1), frozen: frozen}
}

// Pass returns at once, unless the freezer was armed: then its first caller stops until Thaw.
func (f *Freezer) Pass(ctx context.Context) {
	if !f.armed.CompareAndSwap(true, false) {
		return
	}
	f.frozen()
	select {
	case <-f.thaw:
	case <-ctx.Done():
	}
}

// Freeze arms the freezer.
func (f *Freezer) Freeze() { f.armed.Store(true) }

// Thaw takes a Freeze back, whether or not anybody has been stopped by it.
func (f *Freezer) Thaw() {
	if !f.armed.CompareAndSwap(true, false) {
		f.thaw <- struct{}{}
	}
}
