package latchkey

import (
	"context"
	"errors"
	"reflect"
	"unsafe"
)

// None is the result of an Action, for [OnBusy] on functions that have no result.
type None = struct{}

// Args0, Args2 and Args3 are the arguments of functions that have none, two or three, for [OnBusy].
type (
	Args0           = struct{}
	Args2[A, B any] struct {
		First  A
		Second B
	}
	Args3[A, B, C any] struct {
		First  A
		Second B
		Third  C
	}
)

// FuncOption is an option of [Func] and its kin, typed like the function: arguments A, result R.
type FuncOption[A, R any] interface{ applyFunc(*funcConfig[A, R]) }

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

// Func returns a function that runs fn under the decorator's lock: it renders the key from the argument, acquires the
// lock, calls fn with a context that is cancelled if the lease is lost, and releases the lock when fn is over, also by a
// panic or [runtime.Goexit]. The result and the error of fn pass through untouched, except that a loss of the lease is
// joined to the error. If there is no lock, fn is not called and the error matches [ErrBusy], [ErrKey] or [ErrStore].
//
// The lock is released when fn returns. A goroutine that fn leaves behind runs without it; its context is cancelled.
//
// Func panics if the template does not fit the function or an option is wrong, as [regexp.MustCompile] does; [TryFunc]
// returns the error instead. The returned function is safe for concurrent use if fn is.
func Func[A, R any](d *Decorator, fn func(context.Context, A) (R, error), opts ...FuncOption[A, R]) func(context.Context, A) (R, error) {
	return must(TryFunc(d, fn, opts...))
}

// TryFunc is [Func] for templates that come from configuration: it returns the error instead of panicking.
func TryFunc[A, R any](d *Decorator, fn func(context.Context, A) (R, error), opts ...FuncOption[A, R]) (func(context.Context, A) (R, error), error) {
	pointers := func(a *A, p *[3]unsafe.Pointer) { p[0] = unsafe.Pointer(a) }
	return wrap(d, fn, types(reflect.TypeFor[A]()), pointers, fn, opts)
}

// Func0 is [Func] for functions without arguments.
func Func0[R any](d *Decorator, fn func(context.Context) (R, error), opts ...FuncOption[Args0, R]) func(context.Context) (R, error) {
	return must(TryFunc0(d, fn, opts...))
}

// TryFunc0 is [TryFunc] for functions without arguments.
func TryFunc0[R any](d *Decorator, fn func(context.Context) (R, error), opts ...FuncOption[Args0, R]) (func(context.Context) (R, error), error) {
	call := func(ctx context.Context, _ Args0) (R, error) { return fn(ctx) }
	f, err := wrap(d, fn, nil, func(*Args0, *[3]unsafe.Pointer) {}, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (R, error) { return f(ctx, Args0{}) }, nil
}

// Func2 is [Func] for functions with two arguments. [Params] names them for the template.
func Func2[A, B, R any](d *Decorator, fn func(context.Context, A, B) (R, error), opts ...FuncOption[Args2[A, B], R]) func(context.Context, A, B) (R, error) {
	return must(TryFunc2(d, fn, opts...))
}

// TryFunc2 is [TryFunc] for functions with two arguments.
func TryFunc2[A, B, R any](d *Decorator, fn func(context.Context, A, B) (R, error), opts ...FuncOption[Args2[A, B], R]) (func(context.Context, A, B) (R, error), error) {
	pointers := func(a *Args2[A, B], p *[3]unsafe.Pointer) {
		p[0], p[1] = unsafe.Pointer(&a.First), unsafe.Pointer(&a.Second)
	}
	call := func(ctx context.Context, a Args2[A, B]) (R, error) { return fn(ctx, a.First, a.Second) }
	f, err := wrap(d, fn, types(reflect.TypeFor[A](), reflect.TypeFor[B]()), pointers, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B) (R, error) { return f(ctx, Args2[A, B]{a, b}) }, nil
}

// Func3 is [Func] for functions with three arguments. [Params] names them for the template.
func Func3[A, B, C, R any](d *Decorator, fn func(context.Context, A, B, C) (R, error), opts ...FuncOption[Args3[A, B, C], R]) func(context.Context, A, B, C) (R, error) {
	return must(TryFunc3(d, fn, opts...))
}

// TryFunc3 is [TryFunc] for functions with three arguments.
func TryFunc3[A, B, C, R any](d *Decorator, fn func(context.Context, A, B, C) (R, error), opts ...FuncOption[Args3[A, B, C], R]) (func(context.Context, A, B, C) (R, error), error) {
	pointers := func(a *Args3[A, B, C], p *[3]unsafe.Pointer) {
		p[0], p[1], p[2] = unsafe.Pointer(&a.First), unsafe.Pointer(&a.Second), unsafe.Pointer(&a.Third)
	}
	call := func(ctx context.Context, a Args3[A, B, C]) (R, error) { return fn(ctx, a.First, a.Second, a.Third) }
	f, err := wrap(d, fn, types(reflect.TypeFor[A](), reflect.TypeFor[B](), reflect.TypeFor[C]()), pointers, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B, c C) (R, error) { return f(ctx, Args3[A, B, C]{a, b, c}) }, nil
}

// wrap is what all forms have in common. named is the function that the user wrote, call the same with its arguments
// in one value, and pointers tells where each of them is.
func wrap[A, R any](d *Decorator, named any, args []reflect.Type, pointers func(*A, *[3]unsafe.Pointer), call func(context.Context, A) (R, error), opts []FuncOption[A, R]) (func(context.Context, A) (R, error), error) {
	b, err := d.bind(named, args)
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
	n := len(b.key.env.vars)
	return func(ctx context.Context, a A) (r R, err error) {
		var lease *Lease
		if b.inPlace {
			var p [3]unsafe.Pointer
			at := noescape(&p)
			pointers(noescape(&a), at)
			lease, err = b.enter(ctx, at[:n])
		} else {
			onHeap, at := new(A), new([3]unsafe.Pointer)
			*onHeap = a
			pointers(onHeap, at)
			lease, err = b.enter(ctx, at[:n])
		}
		if err != nil {
			if busy, ok := err.(*BusyError); ok && c.busy != nil {
				return c.busy(ctx, a, busy)
			}
			return r, err
		}
		if lease == nil {
			return call(ctx, a)
		}
		defer lease.finish(&err)
		return call(lease.Context(), a)
	}, nil
}

// must is the panic of the forms that are used where a program is wired.
func must[F any](f F, err error) F {
	if err != nil {
		panic(err.Error())
	}
	return f
}

func types(t ...reflect.Type) []reflect.Type { return t }
