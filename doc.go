// Package latchkey runs functions under a distributed lock.
package latchkey
