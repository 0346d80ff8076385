package quorumstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redislisten"
)

type listener struct{ heard func(latchkey.Push) }

// subscriptions are how a store hears hints, one connection to each master.
type subscriptions struct {
	all     []*redis.PubSub
	stop    chan struct{}
	done    sync.WaitGroup
	missing atomic.Int64  // how many must be confirmed until they are a majority
	ready   chan struct{} // closed when they are
	late    atomic.Bool   // they have been waited for once, in vain
}

// Listen implements [latchkey.Store]. The first listener opens a subscription to each master, the last one to stop closes
// them.
func (s *Store) Listen(heard func(latchkey.Push)) (stop func()) {
	l := &listener{heard}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	if s.subs == nil {
		subs := &subscriptions{stop: make(chan struct{}), ready: make(chan struct{})}
		subs.missing.Store(int64(s.quorum))
		for _, m := range s.masters {
			pubsub := m.client.Subscribe(context.Background())
			subs.all = append(subs.all, pubsub)
			subs.done.Go(func() { s.listen(subs, pubsub) })
		}
		s.subs = subs
	}
	return func() { s.unlisten(l) }
}

func (s *Store) unlisten(l *listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	subs := s.subs
	if len(s.listeners) > 0 || subs == nil {
		s.mu.Unlock()
		return
	}
	s.subs = nil
	s.mu.Unlock()
	close(subs.stop)
	for _, pubsub := range subs.all {
		_ = pubsub.Close() // ends the read
	}
	subs.done.Wait()
}

// listen receives from one master until the subscriptions are stopped. What broke may be a master that forgot: renewals say.
func (s *Store) listen(subs *subscriptions, pubsub *redis.PubSub) {
	redislisten.Run(pubsub, s.channel, subs.stop, redislisten.Handler{
		Ready: func() {
			if subs.missing.Add(-1) == 0 {
				close(subs.ready)
			}
		},
		Message: func(payload string) { s.tell(latchkey.Push{Owner: payload}) },
		Broken:  func() { s.tell(latchkey.Push{Broken: true}) },
	})
}

func (s *Store) tell(push latchkey.Push) {
	s.mu.Lock()
	all := make([]*listener, 0, len(s.listeners))
	for l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	for _, l := range all {
		l.heard(push)
	}
}

// place returns the place that an acquire wants in the queues of the masters, "" if it wants none. It lets nobody queue
// before the subscriptions of a majority stand: a hint in between would be told to nobody. It does not insist; polling
// works without.
func (s *Store) place(op *latchkey.Op) string {
	if !op.Queue {
		return ""
	}
	s.mu.Lock()
	subs := s.subs
	s.mu.Unlock()
	if subs == nil {
		return ""
	}
	if subs.late.Load() {
		return s.placeOf(op.Owner)
	}
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	select {
	case <-subs.ready:
	case <-subs.stop:
	case <-patience.C:
		subs.late.Store(true)
	}
	return s.placeOf(op.Owner)
}

func (s *Store) placeOf(owner string) string { return s.channel + " " + owner }
