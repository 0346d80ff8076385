package latchkey

import (
	"context"
	"reflect"
	"unsafe"
)

// renderArg and renderArgs2 render a key for arguments in the way a wrapped function does.
func renderArg[A any](ctx context.Context, k *KeyExpr, a *A) (one string, many []string, err error) {
	if k.direct {
		one, err = k.renderDirect([]unsafe.Pointer{unsafe.Pointer(a)})
		return one, nil, err
	}
	return k.render(ctx, []unsafe.Pointer{onHeap(a)})
}

func renderArgs2[A, B any](ctx context.Context, k *KeyExpr, a *A, b *B) (one string, many []string, err error) {
	args := &Args2[A, B]{*a, *b}
	_, offsets := argsOf(reflect.TypeFor[Args2[A, B]](), 2)
	return k.render(ctx, addresses(unsafe.Pointer(args), offsets))
}

func onHeap[T any](p *T) unsafe.Pointer {
	c := *p
	return unsafe.Pointer(&c)
}
