package latchkey

import "context"

// renderArg renders a key for one argument, in the way a wrapped function does.
func renderArg[A any](ctx context.Context, k *KeyExpr, a *A) (one string, many []string, err error) {
	var p argPointers
	at := place(a, &p, point[A], k.direct)
	return k.render(ctx, at[:1])
}
