package redisstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
)

// script is a Lua program and the name under which Redis caches it.
type script struct {
	source string
	sha    any // a string, as an argument of a command
}

func newScript(parts ...string) script {
	s := script{}
	for _, p := range parts {
		s.source += p
	}
	sum := sha1.Sum([]byte(s.source)) //nolint:gosec // see the import
	s.sha = hex.EncodeToString(sum[:])
	return s
}

//go:embed lua/pass.lua
var passLua string

//go:embed lua/mint.lua
var mintLua string

//go:embed lua/bars.lua
var barsLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/acquire_many.lua
var acquireManyLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/leave.lua
var leaveLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/token.lua
var tokenLua string

//go:embed lua/prove.lua
var proveLua string

var (
	acquireScript     = newScript(passLua, mintLua, barsLua, acquireLua)
	acquireManyScript = newScript(barsLua, acquireManyLua)
	releaseScript     = newScript(passLua, releaseLua)
	leaveScript       = newScript(passLua, leaveLua)
	renewScript       = newScript(renewLua)
	tokenScript       = newScript(mintLua, tokenLua)
	proveScript       = newScript(proveLua)
)
