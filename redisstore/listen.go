package redisstore

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redislisten"
)

// patience is how long those who want to queue wait, once, for the subscription.
const patience = 100 * time.Millisecond

type listener struct{ heard func(latchkey.Push) }

// subscription is the one connection over which a store hears pushes.
type subscription struct {
	pubsub *redis.PubSub
	ready  chan struct{} // closed when the server has confirmed the subscription for the first time
	late   atomic.Bool   // it has been waited for once, in vain
	stop   chan struct{}
	done   chan struct{}
}

// Listen implements [latchkey.Store]. The first listener opens the subscription, the last one to stop closes it.
func (s *Store) Listen(heard func(latchkey.Push)) (stop func()) {
	l := &listener{heard}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	if s.sub == nil {
		s.sub = &subscription{
			pubsub: s.client.Subscribe(context.Background()),
			ready:  make(chan struct{}),
			stop:   make(chan struct{}),
			done:   make(chan struct{}),
		}
		go s.listen(s.sub)
	}
	return func() { s.unlisten(l) }
}

func (s *Store) unlisten(l *listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	sub := s.sub
	if len(s.listeners) > 0 || sub == nil {
		s.mu.Unlock()
		return
	}
	s.sub = nil
	s.mu.Unlock()
	close(sub.stop)
	_ = sub.pubsub.Close() // ends the read
	<-sub.done
}

// listen receives until the subscription is stopped.
func (s *Store) listen(sub *subscription) {
	defer close(sub.done)
	redislisten.Run(sub.pubsub, s.channel, sub.stop, redislisten.Handler{
		Ready:   func() { close(sub.ready) },
		Message: func(payload string) { s.tell(parsePush(payload)) },
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

// awaitSubscription lets nobody queue before the subscription stands: a lock handed over in between would be told to
// nobody, and the waiter would find out only at its next poll. It does not insist; polling works without.
func (s *Store) awaitSubscription(ctx context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		if !op.Queue {
			continue
		}
		s.mu.Lock()
		sub := s.sub
		s.mu.Unlock()
		if sub == nil || sub.late.Load() {
			return
		}
		select {
		case <-sub.ready:
			return
		default:
		}
		enough := time.NewTimer(patience)
		defer enough.Stop()
		select {
		case <-sub.ready:
		case <-sub.done:
		case <-ctx.Done():
		case <-enough.C:
			sub.late.Store(true)
		}
		return
	}
}

// parsePush reads "owner ticket".
func parsePush(payload string) latchkey.Push {
	owner, ticket, _ := strings.Cut(payload, " ")
	return latchkey.Push{Owner: owner, Ticket: parse(ticket)}
}
