//go:build !linux

package main

import "errors"

// Elsewhere nothing is pinned, and the tables say so.

func pinSelf() {}

func cores() []int { return nil }

func pinProcess(int, int) error { return errors.New("processes can be pinned on Linux only") }
