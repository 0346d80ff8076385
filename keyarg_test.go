package latchkey

import (
	"context"
	"unsafe"
)

// renderArg and renderArgs2 render a key for arguments, in the way a wrapped function does.
func renderArg[A any](ctx context.Context, k *KeyExpr, a *A) (one string, many []string, err error) {
	var p argPointers
	return k.render(ctx, place(a, &p, point[A], k.direct)[:1])
}

func renderArgs2[A, B any](ctx context.Context, k *KeyExpr, a *A, b *B) (one string, many []string, err error) {
	var p argPointers
	return k.render(ctx, place(&Args2[A, B]{*a, *b}, &p, point2[A, B], k.direct)[:2])
}

func onHeap[T any](p *T) unsafe.Pointer {
	c := *p
	return unsafe.Pointer(&c)
}
