package latchkey

import (
	"context"
	"reflect"
	"unsafe"
)

// maxArgs is how many arguments a wrapped function may have after its context.
const maxArgs = 3

// argsOf returns the types of n arguments that travel in one value of type t, and where each of them is in it.
func argsOf(t reflect.Type, n int) (types []reflect.Type, offsets []uintptr) {
	if n == 1 {
		return []reflect.Type{t}, []uintptr{0}
	}
	for i := range n {
		types = append(types, t.Field(i).Type)
		offsets = append(offsets, t.Field(i).Offset)
	}
	return types, offsets
}

// addresses returns where the arguments are in the value at base, which must be on the heap: methods of the arguments may
// be called when the key is made, and may keep what they get.
func addresses(base unsafe.Pointer, offsets []uintptr) []unsafe.Pointer {
	at := make([]unsafe.Pointer, len(offsets))
	for i, offset := range offsets {
		at[i] = unsafe.Add(base, offset)
	}
	return at
}

// enterInPlace is enter for keys that are read from the arguments where they are. No pointer into the value at base
// outlives the call, which the compiler can see, so that it may be on the stack.
func (b *bound) enterInPlace(ctx context.Context, base unsafe.Pointer, offsets []uintptr) (*Lease, error) {
	var at [maxArgs]unsafe.Pointer
	for i, offset := range offsets {
		at[i] = unsafe.Add(base, offset)
	}
	key, err := b.key.renderDirect(at[:len(offsets)])
	if err != nil {
		return nil, err
	}
	return b.acquire(ctx, key, nil)
}
