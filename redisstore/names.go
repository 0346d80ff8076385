package redisstore

import "strings"

// Option changes how a [Store] keeps its locks.
type Option func(*Store)

// KeyName has name say under which name a lock is kept in Redis, so that it is the lock of another library or program that
// uses that name. It is given the full key, namespace and colon included: "shop:order:42". Without this option that is
// the name.
//
// name is called from many goroutines at once, often, and must return the same for the same key, and different names for
// different keys. If a name has a hash tag, such as "lock:{42}", everything about the lock is kept in that tag's slot; other
// braces have no place in a name.
func KeyName(name func(key string) string) Option {
	if name == nil {
		panic("redisstore: KeyName(nil): leave the option out, or pass a function")
	}
	return func(s *Store) { s.name = name }
}

// names are the Redis keys of one lock. All are in one slot of a cluster.
type names struct {
	lock   string
	tagged bool // it has a hash tag of its own
}

func (s *Store) names(key string) names {
	if s.name == nil { // keys have no braces
		return names{lock: key}
	}
	lock := s.name(key)
	return names{lock, tagged(lock)}
}

func (n names) queue() string   { return n.companion(":q") }
func (n names) counter() string { return n.companion(":t") }
func (n names) bars() string    { return n.companion(":x") }
func (n names) heard() string   { return n.companion(":h") }

func (n names) companion(suffix string) string {
	if n.tagged {
		return n.lock + suffix
	}
	return "{" + n.lock + "}" + suffix
}

// tagged reports whether Redis Cluster takes the slot from a part of the name only: what is between the first opening
// brace and the next closing one, if there is anything.
func tagged(name string) bool {
	_, after, open := strings.Cut(name, "{")
	tag, _, closed := strings.Cut(after, "}")
	return open && closed && tag != ""
}
