// Package redisreply tells what an error from a Redis server means for whoever might ask again.
package redisreply

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// Answered reports whether the error is a server's answer, and not the lack of one.
func Answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Final reports whether the server would answer the same error again: it answered at all, and did not say that it is
// only in a bad moment.
func Final(err error) bool {
	if !Answered(err) {
		return false
	}
	for _, passing := range []string{
		"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "OOM", "MISCONF",
		"ERR max number of clients",
	} {
		if redis.HasErrorPrefix(err, passing) {
			return false
		}
	}
	return true
}
