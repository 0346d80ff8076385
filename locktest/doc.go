// Package locktest helps to test code that locks, and to test stores.
//
// Code that must run under a lock says so with [AssertHeld]. A [Recorder] around a store, such as one in memory, takes down
// what was locked, for how long, and can be told to fail.
//
// [Conformance] is the suite that every store of this module passes and that whoever writes another one runs too. Each
// of its checks is named for the promise that it tests.
package locktest
