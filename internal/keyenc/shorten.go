package keyenc

import (
	"crypto/sha256"
	"encoding/base64"
	"unicode/utf8"
)

// MaxLen is the length in bytes up to which a key is kept whole.
const MaxLen = 200

// Mark stands between the readable start of a shortened key and its hash. No other key contains it.
const Mark = '~'

var digestLen = base64.RawURLEncoding.EncodedLen(sha256.Size)

// Shorten returns key if it is short enough, else its readable start, Mark and the SHA-256 of the whole.
func Shorten(key []byte) string {
	if len(key) <= MaxLen {
		return string(key)
	}
	sum := sha256.Sum256(key)
	n := boundary(key, MaxLen-1-digestLen)
	out := make([]byte, 0, MaxLen)
	out = append(out, key[:n]...)
	out = append(out, Mark)
	return string(base64.RawURLEncoding.AppendEncode(out, sum[:]))
}

// boundary returns the largest length up to n at which key can be cut without halving an escape or a rune.
func boundary(key []byte, n int) int {
	for n > 0 && !utf8.RuneStart(key[n]) {
		n--
	}
	for back := 1; back <= 2 && back <= n; back++ {
		if key[n-back] == '%' {
			return n - back
		}
	}
	return n
}
