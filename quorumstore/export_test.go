package quorumstore

// Flying returns how many votes are not cast yet.
func Flying(s *Store) int64 { return s.flying.Load() }
