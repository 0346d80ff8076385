package latchkey

import "unsafe"

// noescape hides a pointer from escape analysis. Key rendering only reads through the pointers it is given and keeps
// none of them, which the compiler can't see through the function values of a compiled template; without this every call
// would copy its argument to the heap.
func noescape[T any](p *T) *T {
	address := uintptr(unsafe.Pointer(p))
	return *(**T)(unsafe.Pointer(&address))
}
