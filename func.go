package latchkey

import "context"

// Func returns a function that runs fn under the decorator's lock: it renders the key from the argument, acquires the
// lock, calls fn with a context that is cancelled if the lease is lost, and releases the lock when fn is over, also by a
// panic or [runtime.Goexit]. The result and the error of fn pass through untouched, except that a loss of the lease is
// joined to the error. If there is no lock, fn is not called and the error matches [ErrBusy], [ErrKey] or [ErrStore].
//
// The lock is released when fn returns. A goroutine that fn leaves behind runs without it; its context is cancelled.
//
// Func panics if the template does not fit the function or an option is wrong, as [regexp.MustCompile] does; [TryFunc]
// returns the error instead. The returned function is safe for concurrent use if fn is.
func Func[A, R any](
	d *Decorator, fn func(context.Context, A) (R, error), opts ...FuncOption[A, R],
) func(context.Context, A) (R, error) {
	return must(TryFunc(d, fn, opts...))
}

// TryFunc is [Func] for templates that come from configuration: it returns the error instead of panicking.
func TryFunc[A, R any](
	d *Decorator, fn func(context.Context, A) (R, error), opts ...FuncOption[A, R],
) (func(context.Context, A) (R, error), error) {
	return wrap(d, fn, 1, fn, opts)
}

// Func0 is [Func] for functions without arguments.
func Func0[R any](
	d *Decorator, fn func(context.Context) (R, error), opts ...FuncOption[Args0, R],
) func(context.Context) (R, error) {
	return must(TryFunc0(d, fn, opts...))
}

// TryFunc0 is [TryFunc] for functions without arguments.
func TryFunc0[R any](
	d *Decorator, fn func(context.Context) (R, error), opts ...FuncOption[Args0, R],
) (func(context.Context) (R, error), error) {
	call := func(ctx context.Context, _ Args0) (R, error) { return fn(ctx) }
	f, err := wrap(d, fn, 0, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (R, error) { return f(ctx, Args0{}) }, nil
}

// Func2 is [Func] for functions with two arguments. [Params] names them for the template.
func Func2[A, B, R any](
	d *Decorator, fn func(context.Context, A, B) (R, error), opts ...FuncOption[Args2[A, B], R],
) func(context.Context, A, B) (R, error) {
	return must(TryFunc2(d, fn, opts...))
}

// TryFunc2 is [TryFunc] for functions with two arguments.
func TryFunc2[A, B, R any](
	d *Decorator, fn func(context.Context, A, B) (R, error), opts ...FuncOption[Args2[A, B], R],
) (func(context.Context, A, B) (R, error), error) {
	call := func(ctx context.Context, a Args2[A, B]) (R, error) { return fn(ctx, a.First, a.Second) }
	f, err := wrap(d, fn, 2, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B) (R, error) { return f(ctx, Args2[A, B]{a, b}) }, nil
}

// Func3 is [Func] for functions with three arguments. [Params] names them for the template.
func Func3[A, B, C, R any](
	d *Decorator, fn func(context.Context, A, B, C) (R, error), opts ...FuncOption[Args3[A, B, C], R],
) func(context.Context, A, B, C) (R, error) {
	return must(TryFunc3(d, fn, opts...))
}

// TryFunc3 is [TryFunc] for functions with three arguments.
func TryFunc3[A, B, C, R any](
	d *Decorator, fn func(context.Context, A, B, C) (R, error), opts ...FuncOption[Args3[A, B, C], R],
) (func(context.Context, A, B, C) (R, error), error) {
	call := func(ctx context.Context, a Args3[A, B, C]) (R, error) { return fn(ctx, a.First, a.Second, a.Third) }
	f, err := wrap(d, fn, 3, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B, c C) (R, error) { return f(ctx, Args3[A, B, C]{a, b, c}) }, nil
}
