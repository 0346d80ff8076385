package quorumstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
)

// script is a Lua program and the name under which Redis caches it.
type script struct{ source, sha string }

func newScript(parts ...string) *script {
	s := &script{}
	for _, p := range parts {
		s.source += p
	}
	sum := sha1.Sum([]byte(s.source)) //nolint:gosec // see the import
	s.sha = hex.EncodeToString(sum[:])
	return s
}

//go:embed lua/owner.lua
var ownerLua string

//go:embed lua/number.lua
var numberLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/floor.lua
var floorLua string

//go:embed lua/raise.lua
var raiseLua string

var (
	acquireScript = newScript(ownerLua, numberLua, acquireLua)
	releaseScript = newScript(ownerLua, releaseLua)
	renewScript   = newScript(ownerLua, renewLua)
	floorScript   = newScript(ownerLua, numberLua, floorLua)
	raiseScript   = newScript(ownerLua, numberLua, raiseLua)
)

// The keys of one lock share a hash tag, so that a master may be a cluster of its own.

func queueKey(key string) string   { return "{" + key + "}:q" }
func barsKey(key string) string    { return "{" + key + "}:x" }
func counterKey(key string) string { return "{" + key + "}:t" }
