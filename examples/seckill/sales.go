package main

import (
	"sync"
	"time"
)

// Sales notes the bottles as they are sold. The zero value is an empty note.
type Sales struct {
	mu      sync.Mutex
	count   int
	last    time.Time
	pause   time.Duration
	notify  int
	reached chan struct{}
}

// Note notes a bottle sold at a time.
func (s *Sales) Note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 {
		s.pause = max(s.pause, at.Sub(s.last))
	}
	s.count, s.last = s.count+1, at
	if s.reached != nil && s.count == s.notify {
		close(s.reached)
	}
}

// Reached returns a channel that is closed at the n-th sale. It is asked for once, before the first.
func (s *Sales) Reached(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify, s.reached = n, make(chan struct{})
	return s.reached
}

// Count returns how many bottles were sold so far.
func (s *Sales) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Pause returns the longest time between one sale and the next.
func (s *Sales) Pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}
