//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
)

const (
	keysOnce = 100_000
	keysHeld = 4_000 // that somebody waits for
	users    = 256   // at the same time
	// keyRoom is less than the least that a process could keep of keysOnce keys: a map entry with a pointer each.
	keyRoom = keysOnce * 24
	// waiterRoom is less than what a process has of one waiter: its claim, its channel, its name.
	waiterRoom = keysHeld * 100
)

// slow lets hundreds at once ask a server on a busy machine.
var slow = latchkey.OpTimeout(patience)

// sparing is a client whose connections, of which it makes more as it goes, have small buffers: by default one that is
// for pipelines takes as much memory as ten thousand keys may.
func sparing(srv *testenv.Server) *redis.Options {
	return &redis.Options{
		Addr: srv.Addr(), PoolSize: poolSize, PipelinePoolSize: 1,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, PipelineReadBufferSize: 4 << 10, PipelineWriteBufferSize: 4 << 10,
	}
}

// heap is what is in use after everything that can go has gone: pools let go of what they keep at the second collection.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// eachKey calls use for n keys from many goroutines at once and returns how much the heap has grown.
func eachKey(t *testing.T, n int, use func(key string) error) (grown int64) {
	t.Helper()
	run := func(name string, n int) {
		var next, failed atomic.Int64
		var all sync.WaitGroup
		for range users {
			all.Go(func() {
				for i := next.Add(1); i <= int64(n) && failed.Load() == 0; i = next.Add(1) {
					if err := use(name + strconv.FormatInt(i, 10)); err != nil {
						failed.Add(1)
						t.Errorf("key %d: %v", i, err)
					}
				}
			})
		}
		all.Wait()
	}
	run("warm-up-", 1000)
	goroutines, before := runtime.NumGoroutine(), heap()
	run("", n)
	eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	grown = heap() - before
	t.Logf("after %d keys the heap has grown by %d KiB", n, grown>>10)
	return grown
}

func TestKeysUsedOnceLeaveNoMemoryBehind(t *testing.T) {
	srv := testenv.Redis(t)
	s := connectBy(t, sparing(srv), plain, slow)
	once := latchkey.Func(s.WithLock("once:#{param}"), func(context.Context, string) (bool, error) { return true, nil })
	grown := eachKey(t, keysOnce, func(key string) error {
		_, err := once(context.Background(), key)
		return err
	})
	if grown > keyRoom {
		t.Errorf("the heap has grown by %d bytes, over %d", grown, keyRoom)
	}
	nothingLeft(t, srv)
	if n := srv.Commands(t)["set"]; n < keysOnce {
		t.Errorf("only %d keys were ever set: nothing is shown", n)
	}
	runtime.KeepAlive(s)
}

func TestMutexPerKeyIsSeenToLeaveMemoryBehind(t *testing.T) {
	var mutexes sync.Map
	grown := eachKey(t, keysOnce, func(key string) error {
		m, _ := mutexes.LoadOrStore(key, new(sync.Mutex))
		m.(*sync.Mutex).Lock()
		defer m.(*sync.Mutex).Unlock()
		return nil
	})
	if grown <= keyRoom {
		t.Errorf("a mutex for each of %d keys takes %d bytes, it seems: the harness does not see a leak", keysOnce, grown)
	}
	runtime.KeepAlive(&mutexes)
}

// pass waits for a key, and lets it go at once.
func pass(ctx context.Context, s *service, key string, done chan<- error) {
	lease, err := s.Acquire(ctx, key, latchkey.Wait(patience))
	if err == nil {
		err = lease.Release(ctx)
	}
	done <- err
}

// noted is an observer that tells of each key when the first caller waits for it.
type noted struct{ waits sync.Map }

func (n *noted) waiting(key string) chan struct{} {
	c, _ := n.waits.LoadOrStore(key, make(chan struct{}))
	return c.(chan struct{})
}

// Observe implements [latchkey.Observer].
func (n *noted) Observe(_ context.Context, e latchkey.Event) {
	if c, ok := n.waits.Load(e.Key); ok && e.Kind == latchkey.EventWaiting && n.waits.CompareAndDelete(e.Key, c) {
		close(c.(chan struct{}))
	}
}

func TestContendedKeysLeaveNoMemoryBehind(t *testing.T) {
	srv := testenv.Redis(t)
	notes := &noted{}
	here, there := connectBy(t, sparing(srv), plain, slow), connectBy(t, sparing(srv), plain, slow, latchkey.Observe(notes))
	grown := eachKey(t, keysHeld, func(key string) error {
		held, err := here.Acquire(context.Background(), key)
		if err != nil {
			return err
		}
		// One waits in another process, one gives up there, and one waits here.
		done, gaveUp := make(chan error, 2), make(chan error, 1)
		defer held.Release(context.Background())
		waits := notes.waiting(key)
		go pass(context.Background(), there, key, done)
		select {
		case <-waits:
		case err := <-done:
			return fmt.Errorf("it was to wait: %w", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		impatient := &queuedCtx{Context: ctx, queued: make(chan struct{})}
		go pass(impatient, there, key, gaveUp)
		<-impatient.queued
		patient := &queuedCtx{Context: context.Background(), queued: make(chan struct{})}
		go pass(patient, here, key, done)
		<-patient.queued
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) || !errors.Is(err, latchkey.ErrBusy) {
			return fmt.Errorf("it was to give up: %w", err)
		}
		return errors.Join(held.Release(context.Background()), <-done, <-done)
	})
	if grown > waiterRoom {
		t.Errorf("the heap has grown by %d bytes, over %d", grown, waiterRoom)
	}
	nothingLeft(t, srv)
	counts := srv.Commands(t)
	t.Logf("%d waiters queued on the server, %d were handed a lock", counts["zadd"], counts["publish"])
	if counts["zadd"] < keysHeld || counts["publish"] < keysHeld {
		t.Errorf("only %d waiters queued and %d were handed a lock: nothing is shown", counts["zadd"], counts["publish"])
	}
	runtime.KeepAlive(here)
	runtime.KeepAlive(there)
}

func TestKeysWhoseOnlyWaiterGaveUpLeaveNoMemoryBehind(t *testing.T) {
	srv := testenv.Redis(t)
	notes := &noted{}
	here, there := connectBy(t, sparing(srv), plain, slow), connectBy(t, sparing(srv), plain, slow, latchkey.Observe(notes))
	grown := eachKey(t, keysHeld, func(key string) error {
		held, err := here.Acquire(context.Background(), key)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer held.Release(context.Background())
		waits, gaveUp := notes.waiting(key), make(chan error, 1)
		go pass(ctx, there, key, gaveUp)
		select {
		case <-waits:
		case err := <-gaveUp:
			return fmt.Errorf("it was to wait: %w", err)
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, latchkey.ErrBusy) {
			return fmt.Errorf("it was to give up: %w", err)
		}
		return held.Release(context.Background())
	})
	if grown > waiterRoom {
		t.Errorf("the heap has grown by %d bytes, over %d", grown, waiterRoom)
	}
	nothingLeft(t, srv)
	if joined := srv.Commands(t)["zadd"]; joined < keysHeld {
		t.Errorf("only %d waiters queued: nothing is shown", joined)
	}
	runtime.KeepAlive(here)
	runtime.KeepAlive(there)
}
