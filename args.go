package latchkey

import "unsafe"

// argPointers are the addresses of a call's arguments.
type argPointers [3]unsafe.Pointer

// place finds the addresses of the arguments in a, with the help of p. If they can be read in place, neither a nor p
// moves to the heap. Otherwise methods of the arguments may be called, which may keep them: those get copies.
func place[A any](a *A, p *argPointers, pointers func(*A, *argPointers), inPlace bool) *argPointers {
	if inPlace {
		at := noescape(p)
		pointers(noescape(a), at)
		return at
	}
	at, onHeap := new(argPointers), new(A)
	*onHeap = *a
	pointers(onHeap, at)
	return at
}

// noescape hides a pointer from escape analysis. A key that is rendered in place only reads through the pointers it is
// given and keeps none of them, which the compiler can't see through the function values of a compiled template;
// without this every call would copy its argument to the heap.
//
// The way from the address back to a pointer must be a conversion, as in the runtime's own noescape, and not a look at
// the integer as if it were a pointer: there the compiler may go on with the integer, which does not follow the stack
// when that grows. Neither function may grow it: at times the address is nothing but an integer.
//
//go:nosplit
//go:nocheckptr
func noescape[T any](p *T) *T { return (*T)(pointerTo(uintptr(unsafe.Pointer(p)))) }

// pointerTo is generic because vet refuses the conversion otherwise; see noescape for why it is sound.
//
//go:nosplit
//go:nocheckptr
func pointerTo[U ~uintptr](address U) unsafe.Pointer { return unsafe.Pointer(address ^ 0) }

func point0(*Args0, *argPointers)       {}
func point[A any](a *A, p *argPointers) { p[0] = unsafe.Pointer(a) }
func point2[A, B any](a *Args2[A, B], p *argPointers) {
	p[0], p[1] = unsafe.Pointer(&a.First), unsafe.Pointer(&a.Second)
}
func point3[A, B, C any](a *Args3[A, B, C], p *argPointers) {
	p[0], p[1], p[2] = unsafe.Pointer(&a.First), unsafe.Pointer(&a.Second), unsafe.Pointer(&a.Third)
}
