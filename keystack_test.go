package latchkey

import (
	"context"
	"sync/atomic"
	"testing"
	"unsafe"
)

// deep calls f from n frames down.
//
//go:noinline
func deep(n int, f func()) {
	var frame [64]byte
	frame[n%len(frame)] = 1
	if n > 0 {
		deep(n-1, f)
		frame[0]++
		return
	}
	f()
}

// The arguments of a call are on its stack, and so is the list of their addresses. A stack moves when it grows, at whatever
// call runs out of room: each depth is tried, on fresh stacks.
func TestKeyIsReadFromTheRightPlaceWhenTheStackGrows(t *testing.T) {
	k := mustCompile(t, "o:#{p.A}:#{p.B}:#{p.C}", Var[texts]("p"))
	want, _, err := renderArg(context.Background(), k, &texts{A: "a", B: "b", C: "c"})
	if err != nil {
		t.Fatal(err)
	}
	var moved atomic.Int32
	for i := range 4000 {
		done := make(chan string)
		go func() {
			deep(i%200, func() {
				v := texts{A: "a", B: "b", C: "c"}
				before := uintptr(unsafe.Pointer(&v))
				key, _, _ := renderArg(context.Background(), k, &v)
				if uintptr(unsafe.Pointer(&v)) != before {
					moved.Add(1)
				}
				done <- key
			})
		}()
		if key := <-done; key != want {
			t.Fatalf("from %d frames down the key is %q, want %q", i%200, key, want)
		}
	}
	if moved.Load() == 0 {
		t.Error("void: no stack grew while a key was rendered")
	}
}
