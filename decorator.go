package latchkey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// Decorator is a key template and options, not yet bound to a function. [Func] and its kin bind it. It is safe for
// concurrent use and may be bound any number of times.
type Decorator struct {
	locks    *Locks
	template string
	config   decoratorConfig
}

// WithLock returns a decorator that runs functions under a lock. The lock's key is rendered from the arguments of each
// call by the template: "order:#{param.id}"; see [CompileKey] for the language. An empty template means "#{fn}", one
// lock for the function whatever its arguments.
//
// Mistakes in the template or the options show when the decorator is bound to a function, since only then the
// argument types are known: [Func] panics, [TryFunc] returns the error.
func (l *Locks) WithLock(template string, opts ...DecoratorOption) *Decorator {
	d := &Decorator{locks: l, template: template}
	d.config.hold = l.defaults
	d.config.ctxVars = make(map[string]ctxVar)
	maps.Copy(d.config.ctxVars, l.ctxVars)
	for i, o := range opts {
		if isNil(o) {
			d.config.errs = append(d.config.errs, fmt.Errorf("latchkey: WithLock: option %d is nil; leave it out", i+1))
			continue
		}
		o.applyDecorator(&d.config)
	}
	return d
}

var errNoDecorator = errors.New("latchkey: the decorator is nil; make one with locks.WithLock(template)")

// bound is a decorator that knows the types of the arguments.
type bound struct {
	locks   *Locks
	key     *KeyExpr
	when    *condExpr // nil: always
	request request
	tx      *txPlan // nil: the function runs outside a transaction, or in its caller's
	// inPlace: the key is read from the arguments where they are. Otherwise methods of the arguments may be called,
	// which may keep them, so they have to be on the heap.
	inPlace bool
}

// bind compiles the decorator for a function with these arguments.
func (d *Decorator) bind(fn any, args []reflect.Type) (*bound, error) {
	if d == nil {
		return nil, errNoDecorator
	}
	if isNil(fn) {
		return nil, errors.New("latchkey: the function to wrap is nil; pass a function or a method value")
	}
	vars, err := d.vars(args)
	if err != nil {
		return nil, err
	}
	name, whyNot := funcName(fn)
	return d.compile(name, whyNot, vars, len(vars) < len(args))
}

// compile compiles the decorator for these variables. name is what #{fn} stands for; if there is none whyNot says why.
// unnamed: there are arguments that are no variables, for want of a name.
func (d *Decorator) compile(name, whyNot string, vars []KeyVar, unnamed bool) (*bound, error) {
	hold := d.config.hold
	errs := append(slices.Clone(d.config.errs), d.config.tx.check(&hold, d.locks.caps)...)
	errs = append(errs, hold.check(d.locks.caps)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	env := keyEnv{vars: vars, ctxVars: d.config.ctxVars, maxKeys: d.config.maxKeys, fnName: name, fnErr: whyNot, unnamed: unnamed}
	if d.config.name != "" {
		env.fnName, env.fnErr = d.config.name, ""
	}
	env.namespace = d.locks.prefix
	if d.config.prefix != "" {
		env.prefix = d.config.prefix + ":"
	}
	var err error
	b := &bound{locks: d.locks, request: request{holdConfig: hold, template: d.template}, tx: d.config.tx}
	if b.key, err = compileKey(d.template, env); err != nil {
		return nil, err
	}
	if d.config.when != "" {
		if b.when, err = compileCond(d.config.when, env); err != nil {
			return nil, err
		}
	}
	b.inPlace = b.key.direct && b.when == nil
	return b, nil
}

// vars names the arguments.
func (d *Decorator) vars(args []reflect.Type) ([]KeyVar, error) {
	names := d.config.params
	switch {
	case names == nil && len(args) == 1:
		names = []string{"param"}
	case names == nil:
		// Unnamed arguments can't be used; a template that names one is told about Params.
		return nil, nil
	case len(names) != len(args):
		return nil, fmt.Errorf(
			"latchkey: Params(%s): %d names for a function with %d arguments after its context; give one name for each",
			quoteAll(names), len(names), len(args))
	}
	vars := make([]KeyVar, len(args))
	for i, t := range args {
		vars[i] = KeyVar{name: names[i], typ: t}
	}
	return vars, nil
}

// enter acquires the lock for a call with the arguments at args. It returns nil without an error if the call is to run
// without a lock.
func (b *bound) enter(ctx context.Context, args []unsafe.Pointer) (*Lease, error) {
	if b.when != nil {
		locked, err := b.when.eval(ctx, args)
		if err != nil || !locked {
			return nil, err
		}
	}
	key, many, err := b.key.render(ctx, args)
	if err != nil {
		return nil, err
	}
	return b.acquire(ctx, key, many)
}

func (b *bound) acquire(ctx context.Context, key string, many []string) (*Lease, error) {
	r := b.request
	r.apart = b.tx != nil && !b.tx.joins(ctx)
	return b.locks.acquire(ctx, key, many, &r)
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, ", ")
}
