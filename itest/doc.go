// Package itest tests latchkey from the outside, as a service uses it: many processes, real servers that pause, die and
// come back, database drivers and routers. It is a module of its own, so that none of those reaches a user's go.sum.
package itest
