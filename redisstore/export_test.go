package redisstore

// Names returns every Redis key of a lock.
func Names(key string, opts ...Option) []string {
	s := &Store{}
	for _, o := range opts {
		o(s)
	}
	n := s.names(key)
	return []string{n.lock, n.queue(), n.counter(), n.bars(), n.heard()}
}
