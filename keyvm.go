package latchkey

import (
	"sync"

	"github.com/expr-lang/expr/vm"
)

// machines holds idle expression VMs. A VM is used by one call at a time.
var machines = sync.Pool{New: func() any { return new(vm.VM) }}

// release gives a VM back without the values of the call it served. One that ran a predicate keeps hold of the list,
// out of reach, and is dropped.
func release(machine *vm.VM) {
	if cap(machine.Scopes) > 0 {
		return
	}
	clear(machine.Stack[:cap(machine.Stack)])
	clear(machine.Variables)
	machines.Put(machine)
}
