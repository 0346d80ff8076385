package locktest

import (
	"context"
	"slices"
	"strings"

	"github.com/latchkey-go/latchkey"
)

// TB is the part of [testing.TB] that this package uses.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// AssertHeld fails the test if ctx carries no lease on the key that is still held, and reports whether it does: if the
// code that was called with ctx really runs under the lock. The key is the rendered one, without the namespace. It
// does not ask the store.
//
//nolint:revive // a test comes first, as everywhere
func AssertHeld(t TB, ctx context.Context, key string) bool {
	t.Helper()
	held := latchkey.HeldKeys(ctx)
	if slices.Contains(held, key) {
		return true
	}
	if len(held) == 0 {
		t.Errorf("lock %q is not held: the context carries no lease that is; "+
			"pass on the context that the locked function was given", key)
		return false
	}
	t.Errorf("lock %q is not held; the context carries %s", key, strings.Join(held, ", "))
	return false
}
