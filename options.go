package latchkey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	defaultNamespace = "latchkey"
	defaultLease     = 30 * time.Second
	defaultOpTimeout = time.Second
	// defaultHandleHold bounds a lease from Acquire, which nothing but the caller's care would end.
	defaultHandleHold = 10 * time.Minute

	minLease = time.Millisecond
	maxLease = 365 * 24 * time.Hour

	forever = time.Duration(-1)
)

// LocksOption is an option of [New].
type LocksOption interface{ applyLocks(c *locksConfig) }

// DecoratorOption is an option of [Locks.WithLock].
type DecoratorOption interface{ applyDecorator(c *decoratorConfig) }

// HoldOption says how a lock is waited for and held. It is accepted by [Locks.Acquire], by [Locks.WithLock], and by
// [New], where it sets the default of both. The later option wins.
type HoldOption interface {
	LocksOption
	DecoratorOption
	applyHold(c *holdConfig)
}

type locksConfig struct {
	namespace string
	observer  Observer
	opTimeout time.Duration
	ctxVars   map[string]ctxVar
	hold      holdConfig
	errs      []error
}

type decoratorConfig struct {
	hold    holdConfig
	prefix  string
	name    string
	params  []string
	when    string
	maxKeys int
	ctxVars map[string]ctxVar
	tx      *txPlan
	errs    []error
}

// holdConfig is how to wait for a lock and how to hold it.
type holdConfig struct {
	wait    time.Duration // 0: do not wait, forever: as long as ctx allows
	lease   time.Duration
	fixed   bool          // the lease is not renewed
	maxHold time.Duration // 0: not set
	noBound bool          // MaxHold was given as NoMaxHold
	mint    bool          // mint a token with the acquire
	errs    []error
}

func (c *holdConfig) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("latchkey: "+format, args...))
}

type holdOption func(*holdConfig)

func (o holdOption) applyHold(c *holdConfig)           { o(c) }
func (o holdOption) applyLocks(c *locksConfig)         { o(&c.hold) }
func (o holdOption) applyDecorator(c *decoratorConfig) { o(&c.hold) }

type locksOption func(*locksConfig)

func (o locksOption) applyLocks(c *locksConfig) { o(c) }

type decoratorOption func(*decoratorConfig)

func (o decoratorOption) applyDecorator(c *decoratorConfig) { o(c) }

// Wait makes a caller queue for a busy lock, for at most d. Wait(0), the default, does not queue: a busy lock is
// answered at once with [ErrBusy]. The caller's context ends any wait earlier.
//
// A holder that crashed blocks its key until its lease ends, 30 seconds by default: callers who wait for less time get
// [ErrBusy] until then. Make the wait longer than the lease, or the lease shorter ([RenewedLease]), where a crash must
// not be seen by callers.
func Wait(d time.Duration) HoldOption {
	return holdOption(func(c *holdConfig) {
		if d < 0 {
			c.failf("Wait(%v): a wait can't be negative; use Wait(0) not to wait, WaitForever() to wait without an end", d)
			return
		}
		c.wait = d
	})
}

// WaitForever makes a caller queue for a busy lock until its context ends.
func WaitForever() HoldOption {
	return holdOption(func(c *holdConfig) { c.wait = forever })
}

// LeaseFor holds the lock for d and no longer, however long the function runs: the lease is not renewed, and the
// context given to the function is cancelled when it ends. Fractions of a millisecond round up. It is for work with a
// known bound; for a lock that is just freed sooner after a crash, use [RenewedLease].
func LeaseFor(d time.Duration) HoldOption {
	return holdOption(func(c *holdConfig) {
		if c.checkLease("LeaseFor", d) {
			c.lease, c.fixed = roundUp(d), true
		}
	})
}

// RenewedLease sets the length of a lease that a watchdog renews for as long as the function runs, each time a third of
// it has passed: 30 seconds unless set. It is how long the lock outlives a process that crashed, and how long a process
// can be cut off from the store before it loses its locks. Fractions of a millisecond round up.
func RenewedLease(lease time.Duration) HoldOption {
	return holdOption(func(c *holdConfig) {
		if c.checkLease("RenewedLease", lease) {
			c.lease, c.fixed = roundUp(lease), false
		}
	})
}

// MaxHold bounds how long a renewed lease is held: after d the function's context is cancelled with [ErrLeaseLost] and
// the lease is not renewed any more. Wrapped functions have no bound unless it is set; leases from [Locks.Acquire] have
// one of ten minutes, so that a handle that was forgotten does not block its key for as long as the process lives.
func MaxHold(d time.Duration) HoldOption {
	return holdOption(func(c *holdConfig) {
		if d <= 0 {
			c.failf("MaxHold(%v): the bound must be positive; use NoMaxHold() for a lease without one", d)
			return
		}
		c.maxHold, c.noBound = d, false
	})
}

// NoMaxHold lifts the bound that [Locks.Acquire] sets by default.
func NoMaxHold() HoldOption {
	return holdOption(func(c *holdConfig) { c.maxHold, c.noBound = 0, true })
}

// MintToken mints the fencing token while the lock is acquired, so that [Lease.Token] answers without asking the
// store. It costs a script instead of a plain command; use it where every call needs its token.
func MintToken() HoldOption {
	return holdOption(func(c *holdConfig) { c.mint = true })
}

// Namespace keeps the locks of one application apart from others in the same store: it stands before every key,
// followed by a colon. The default is "latchkey". It must not be empty or contain spaces, braces or control characters.
func Namespace(name string) LocksOption {
	return locksOption(func(c *locksConfig) {
		if err := checkPlain("Namespace", name); err != nil {
			c.errs = append(c.errs, err)
			return
		}
		c.namespace = name
	})
}

// Observe has the observer hear what happens to locks.
func Observe(o Observer) LocksOption {
	return locksOption(func(c *locksConfig) {
		if isNil(o) {
			c.errs = append(c.errs, errors.New("latchkey: Observe(nil): leave the option out, or pass an Observer"))
			return
		}
		c.observer = o
	})
}

// OpTimeout bounds each exchange with the store, and how long a store that fails is asked again before the answer is
// [ErrStore]. The default is one second.
func OpTimeout(d time.Duration) LocksOption {
	return locksOption(func(c *locksConfig) {
		if d < time.Millisecond {
			c.errs = append(c.errs,
				fmt.Errorf("latchkey: OpTimeout(%v): at least a millisecond is needed; leave the option out for one second", d))
			return
		}
		c.opTimeout = d
	})
}

// Prefix stands before every key of the decorator, followed by a colon: a literal, not a template.
func Prefix(prefix string) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) {
		if err := checkPlain("Prefix", prefix); err != nil {
			c.errs = append(c.errs, err)
			return
		}
		c.prefix = prefix
	})
}

// Name gives the function the name that #{fn} stands for. Closures, generic functions, method values of interfaces and
// functions that are wrapped already have none of their own.
func Name(name string) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) {
		if strings.TrimSpace(name) == "" {
			c.errs = append(c.errs, errors.New(`latchkey: Name(""): the name is blank; give the function's name, such as "shop.Buy"`))
			return
		}
		c.name = name
	})
}

// Params names the function's arguments, in order, for use in the key template. Without it the argument of a function
// with one is called param; functions with two or three need Params if their template names an argument.
func Params(names ...string) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) { c.params = append([]string(nil), names...) })
}

// When makes the lock conditional: a boolean expression over the same names as the key template, such as
// "param.qty > 0". If it is false the function runs without the lock, on purpose. If it can't be evaluated
// (nil on the path) the function does not run and the answer is [ErrKey].
func When(expr string) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) { c.when = expr })
}

// MaxKeys bounds how many keys a template with a list may render to, 256 unless set.
func MaxKeys(n int) DecoratorOption {
	return decoratorOption(func(c *decoratorConfig) {
		if n < 1 {
			c.errs = append(c.errs, fmt.Errorf("latchkey: MaxKeys(%d): at least one key must be allowed; leave the option out for 256", n))
			return
		}
		c.maxKeys = n
	})
}

// CtxVarOption is what [CtxVar] returns: an option of [New], for all decorators, of [Locks.WithLock], for one, and of
// [CompileKey].
type CtxVarOption interface {
	LocksOption
	DecoratorOption
	KeyOption
}

// CtxVar makes a value of the call's context available to key templates as ctx.<name>: a tenant, a user. f is called
// for each call whose template uses it. A nil or blank value is a missing one: [ErrKey].
func CtxVar[T any](name string, f func(context.Context) T) CtxVarOption {
	return newCtxVar(name, f)
}

func (v ctxVar) applyLocks(c *locksConfig)         { c.ctxVars = v.into(c.ctxVars) }
func (v ctxVar) applyDecorator(c *decoratorConfig) { c.ctxVars = v.into(c.ctxVars) }
func (v ctxVar) applyKey(env *keyEnv)              { env.ctxVars = v.into(env.ctxVars) }

func (v ctxVar) into(vars map[string]ctxVar) map[string]ctxVar {
	if vars == nil {
		vars = make(map[string]ctxVar)
	}
	vars[v.name] = v
	return vars
}

func (c *holdConfig) checkLease(option string, d time.Duration) bool {
	switch {
	case d < minLease:
		c.failf("%s(%v): a lease lasts at least a millisecond; leave the option out for 30 seconds, renewed", option, d)
	case d > maxLease:
		c.failf("%s(%v): a lease lasts at most a year; leave the option out for one that is renewed while the function runs", option, d)
	default:
		return true
	}
	return false
}

func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// checkPlain refuses text that would make keys ambiguous or move them between the slots of a cluster.
func checkPlain(option, text string) error {
	if text == "" {
		return fmt.Errorf("latchkey: %s(%q): the text is empty; leave the option out instead", option, text)
	}
	for _, r := range text {
		if r <= ' ' || r == 0x7f || r == '{' || r == '}' || r == '~' || r == 0xfffd {
			return fmt.Errorf("latchkey: %s(%q): %q is not allowed; use letters, digits and punctuation such as - _ . /", option, text, r)
		}
	}
	return nil
}
