package latchkey

import (
	"context"
	"errors"
	"reflect"
	"unsafe"
)

// None is the result of an Action, for [OnBusy] on functions that have no result.
type None = struct{}

type (
	// Args0 are the arguments of a function that has none, for [OnBusy].
	Args0 = struct{}
	// Args2 are the arguments of a function that has two, for [OnBusy].
	Args2[A, B any] struct {
		First  A
		Second B
	}
	// Args3 are the arguments of a function that has three, for [OnBusy].
	Args3[A, B, C any] struct {
		First  A
		Second B
		Third  C
	}
)

// FuncOption is an option of [Func] and its kin, typed like the function: arguments A, result R.
type FuncOption[A, R any] interface{ applyFunc(c *funcConfig[A, R]) }

type funcConfig[A, R any] struct {
	busy func(context.Context, A, *BusyError) (R, error)
}

type funcOption[A, R any] func(*funcConfig[A, R])

func (o funcOption[A, R]) applyFunc(c *funcConfig[A, R]) { o(c) }

// OnBusy answers a call whose lock is busy by calling f instead of the function. f runs without the lock. An error of
// the function itself never counts as busy.
func OnBusy[A, R any](f func(ctx context.Context, args A, busy *BusyError) (R, error)) FuncOption[A, R] {
	return funcOption[A, R](func(c *funcConfig[A, R]) { c.busy = f })
}

// wrap is what all forms have in common. named is the function that the user wrote, with n arguments after its context,
// and call the same with its arguments in one value: the only one, or an ArgsN.
func wrap[A, R any](
	d *Decorator, named any, n int, call func(context.Context, A) (R, error), opts []FuncOption[A, R],
) (func(context.Context, A) (R, error), error) {
	types, offsets := argsOf(reflect.TypeFor[A](), n)
	b, err := d.bind(named, types)
	if err != nil {
		return nil, err
	}
	var c funcConfig[A, R]
	for _, o := range opts {
		if isNil(o) {
			return nil, errors.New("latchkey: a function option is nil; leave it out")
		}
		o.applyFunc(&c)
	}
	offsets = offsets[:len(b.key.env.vars)]
	return func(ctx context.Context, a A) (r R, err error) {
		var lease *Lease
		if b.inPlace {
			lease, err = b.enterInPlace(ctx, unsafe.Pointer(&a), offsets)
		} else {
			onHeap := new(A)
			*onHeap = a
			lease, err = b.enter(ctx, addresses(unsafe.Pointer(onHeap), offsets))
		}
		if err != nil {
			// Not errors.As: only the lock's own answer counts, nothing that user code wrapped into another one.
			if busy, ok := err.(*BusyError); ok && c.busy != nil { //nolint:errorlint // see above
				return c.busy(ctx, a, busy)
			}
			return r, err
		}
		if b.tx != nil {
			return inTx(ctx, b.tx, lease, call, a)
		}
		if lease == nil {
			return call(ctx, a)
		}
		defer lease.finish(&err)
		return call(lease.Context(), a)
	}, nil
}

// inTx runs the function in its transaction. It is a function of its own, and stays one, so that only calls with a
// transaction pay for keeping arguments and result where the transaction finds them.
//
//go:noinline
func inTx[A, R any](
	ctx context.Context, p *txPlan, lease *Lease, call func(context.Context, A) (R, error), a A,
) (r R, err error) {
	err = p.run(ctx, lease, func(ctx context.Context) (err error) {
		r, err = call(ctx, a)
		return err
	})
	return r, err
}

// must is the panic of the forms that are used where a program is wired.
func must[F any](f F, err error) F {
	if err != nil {
		panic(err.Error())
	}
	return f
}
