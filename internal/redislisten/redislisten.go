// Package redislisten receives what a Redis server publishes, over a subscription that is made again whenever it is lost.
package redislisten

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// silence is how long the server may be silent before the connection is tested.
	silence = 5 * time.Second
	// firstReconnect and maxReconnect are the pauses before a lost subscription is made again, doubling.
	firstReconnect = 50 * time.Millisecond
	maxReconnect   = time.Second
)

// Handler hears what becomes of a subscription. Its functions are called by one goroutine.
type Handler struct {
	Ready   func()               // the server has confirmed the subscription for the first time
	Message func(payload string) // somebody has published
	Broken  func()               // the connection was lost: messages may be missing until the next one
}

// Run subscribes to the channel and returns when stop is closed. Whoever closes stop then closes pubsub, which ends the read.
func Run(pubsub *redis.PubSub, channel string, stop <-chan struct{}, h Handler) {
	ctx := context.Background()
	err := pubsub.Subscribe(ctx, channel)
	silent, confirmed, broken, pause := false, false, false, firstReconnect
	for {
		var msg any
		if err == nil {
			msg, err = pubsub.ReceiveTimeout(ctx, silence)
		}
		select {
		case <-stop:
			return
		default:
		}
		switch {
		case err == nil:
			silent, broken, pause = false, false, firstReconnect
			if _, ok := msg.(*redis.Subscription); ok && !confirmed {
				confirmed = true
				h.Ready()
			}
			if m, ok := msg.(*redis.Message); ok {
				h.Message(m.Payload)
			}
		case isTimeout(err) && !silent:
			silent = true
			err = pubsub.Ping(ctx)
		default:
			// The next receive connects anew and subscribes again.
			if !broken {
				h.Broken()
			}
			silent, broken, err = false, true, nil
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxReconnect)
		}
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
