package latchkey

import (
	"context"
	"unsafe"
)

// The functions below render a key for arguments held as variables of their own types. A template whose values are all
// read by their offset reads them where they are: nothing in that path lets a pointer escape, so the variable may live
// on the stack. Every other template may call methods, which may keep what they are given: it gets copies on the heap.

func renderArg[A any](ctx context.Context, k *KeyExpr, a *A) (one string, many []string, err error) {
	if k.direct {
		one, err = k.renderDirect([]unsafe.Pointer{unsafe.Pointer(a)})
		return one, nil, err
	}
	return k.render(ctx, []unsafe.Pointer{onHeap(a)})
}

func renderArgs2[A, B any](ctx context.Context, k *KeyExpr, a *A, b *B) (one string, many []string, err error) {
	if k.direct {
		one, err = k.renderDirect([]unsafe.Pointer{unsafe.Pointer(a), unsafe.Pointer(b)})
		return one, nil, err
	}
	return k.render(ctx, []unsafe.Pointer{onHeap(a), onHeap(b)})
}

func renderArgs3[A, B, C any](
	ctx context.Context, k *KeyExpr, a *A, b *B, c *C,
) (one string, many []string, err error) {
	if k.direct {
		one, err = k.renderDirect([]unsafe.Pointer{unsafe.Pointer(a), unsafe.Pointer(b), unsafe.Pointer(c)})
		return one, nil, err
	}
	return k.render(ctx, []unsafe.Pointer{onHeap(a), onHeap(b), onHeap(c)})
}

// onHeap returns a pointer to a copy of what p points at.
func onHeap[T any](p *T) unsafe.Pointer {
	c := new(T)
	*c = *p
	return unsafe.Pointer(c)
}
