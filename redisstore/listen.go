package redisstore

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
)

const (
	// silence is how long the subscription may be silent before its connection is tested.
	silence = 5 * time.Second
	// firstReconnect is the pause before a lost subscription is made again; it doubles up to maxReconnect.
	firstReconnect = 50 * time.Millisecond
	maxReconnect   = 2 * time.Second
	// patience is how long those who want to queue wait, once, for the subscription.
	patience = 100 * time.Millisecond
)

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
	ctx := context.Background()
	err := sub.pubsub.Subscribe(ctx, s.channel)
	silent, confirmed, broken, pause := false, false, false, firstReconnect
	for {
		var msg any
		if err == nil {
			msg, err = sub.pubsub.ReceiveTimeout(ctx, silence)
		}
		select {
		case <-sub.stop:
			return
		default:
		}
		switch {
		case err == nil:
			silent, broken, pause = false, false, firstReconnect
			if _, ok := msg.(*redis.Subscription); ok && !confirmed {
				confirmed = true
				close(sub.ready)
			}
			if m, ok := msg.(*redis.Message); ok {
				s.tell(parsePush(m.Payload))
			}
		case isTimeout(err) && !silent:
			silent = true
			err = sub.pubsub.Ping(ctx)
		default:
			// The next receive connects anew and subscribes again.
			if !broken {
				s.tell(latchkey.Push{Broken: true})
			}
			silent, broken, err = false, true, nil
			select {
			case <-sub.stop:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxReconnect)
		}
	}
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

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
