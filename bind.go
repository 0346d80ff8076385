package latchkey

import "context"

// Bound is a decorator that knows its variables, for adapters: code that runs something under a lock and has the values
// for the key at hand, such as an HTTP request. To wrap a function use [Func] and its kin. A Bound is safe for
// concurrent use.
type Bound struct{ b *bound }

// Bind compiles the decorator for calls with these variables. name is what #{fn} stands for, unless [Name] says
// otherwise; it may be empty. A template that does not fit the variables is a *[KeyError].
func (d *Decorator) Bind(name string, vars ...KeyVar) (*Bound, error) {
	if d == nil {
		return nil, errNoDecorator
	}
	b, err := d.compile(name, `nothing here has a name: give it one with Name("…")`, vars, false)
	if err != nil {
		return nil, err
	}
	return &Bound{b}, nil
}

// Transactional reports whether calls run in a transaction of their own: what they answer has to wait for its outcome.
func (b *Bound) Transactional() bool { return b.b.tx != nil }

// Waits reports whether calls wait for a lock that is busy: an adapter has to notice then that its caller goes away.
func (b *Bound) Waits() bool { return b.b.request.wait != 0 }

// Do runs fn under the lock of these arguments, the values of the variables in their order, in the way of [Func]: with
// a context that ends with the lease, a release however fn ends, and a loss joined to fn's error. If there is no
// lock fn is not called and the error matches [ErrBusy], [ErrKey] or [ErrStore].
func (b *Bound) Do(ctx context.Context, args []any, fn func(ctx context.Context) error) (err error) {
	lease, err := b.Enter(ctx, args)
	if err != nil {
		return err
	}
	if b.b.tx != nil {
		return b.b.tx.run(ctx, lease, fn)
	}
	if lease == nil {
		return fn(ctx)
	}
	defer lease.finish(&err)
	return fn(lease.Context())
}

// Enter acquires the lock of these arguments for work that does not fit a function, such as a stream. The caller must
// release the lease. It is nil, without an error, if [When] says that the work is to be done without a lock. Errors
// are those of Do.
func (b *Bound) Enter(ctx context.Context, args []any) (*Lease, error) {
	at, err := b.b.key.point(args)
	if err != nil {
		return nil, err
	}
	return b.b.enter(ctx, at)
}
