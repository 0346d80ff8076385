package latchkey

import "context"

// Action is [Func] for functions whose only result is an error.
func Action[A any](
	d *Decorator, fn func(context.Context, A) error, opts ...FuncOption[A, None],
) func(context.Context, A) error {
	return must(TryAction(d, fn, opts...))
}

// TryAction is [Action] for templates that come from configuration: it returns the error instead of panicking.
func TryAction[A any](
	d *Decorator, fn func(context.Context, A) error, opts ...FuncOption[A, None],
) (func(context.Context, A) error, error) {
	call := func(ctx context.Context, a A) (None, error) { return None{}, fn(ctx, a) }
	f, err := wrap(d, fn, 1, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A) error {
		_, err := f(ctx, a)
		return err
	}, nil
}

// Action0 is [Func0] for functions whose only result is an error.
func Action0(
	d *Decorator, fn func(context.Context) error, opts ...FuncOption[Args0, None],
) func(context.Context) error {
	return must(TryAction0(d, fn, opts...))
}

// TryAction0 is [Action0] for templates that come from configuration: it returns the error instead of panicking.
func TryAction0(
	d *Decorator, fn func(context.Context) error, opts ...FuncOption[Args0, None],
) (func(context.Context) error, error) {
	call := func(ctx context.Context, _ Args0) (None, error) { return None{}, fn(ctx) }
	f, err := wrap(d, fn, 0, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := f(ctx, Args0{})
		return err
	}, nil
}

// Action2 is [Func2] for functions whose only result is an error.
func Action2[A, B any](
	d *Decorator, fn func(context.Context, A, B) error, opts ...FuncOption[Args2[A, B], None],
) func(context.Context, A, B) error {
	return must(TryAction2(d, fn, opts...))
}

// TryAction2 is [Action2] for templates that come from configuration: it returns the error instead of panicking.
func TryAction2[A, B any](
	d *Decorator, fn func(context.Context, A, B) error, opts ...FuncOption[Args2[A, B], None],
) (func(context.Context, A, B) error, error) {
	call := func(ctx context.Context, a Args2[A, B]) (None, error) { return None{}, fn(ctx, a.First, a.Second) }
	f, err := wrap(d, fn, 2, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B) error {
		_, err := f(ctx, Args2[A, B]{a, b})
		return err
	}, nil
}

// Action3 is [Func3] for functions whose only result is an error.
func Action3[A, B, C any](
	d *Decorator, fn func(context.Context, A, B, C) error, opts ...FuncOption[Args3[A, B, C], None],
) func(context.Context, A, B, C) error {
	return must(TryAction3(d, fn, opts...))
}

// TryAction3 is [Action3] for templates that come from configuration: it returns the error instead of panicking.
func TryAction3[A, B, C any](
	d *Decorator, fn func(context.Context, A, B, C) error, opts ...FuncOption[Args3[A, B, C], None],
) (func(context.Context, A, B, C) error, error) {
	call := func(ctx context.Context, a Args3[A, B, C]) (None, error) {
		return None{}, fn(ctx, a.First, a.Second, a.Third)
	}
	f, err := wrap(d, fn, 3, call, opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, a A, b B, c C) error {
		_, err := f(ctx, Args3[A, B, C]{a, b, c})
		return err
	}, nil
}
