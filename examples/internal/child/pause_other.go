//go:build !unix

package child

import "errors"

// Pause needs a Unix.
func (p *Process) Pause() error { return errors.New("processes can't be stopped on this system") }

// Resume lets a process that stands still go on.
func (p *Process) Resume() error { return nil }
