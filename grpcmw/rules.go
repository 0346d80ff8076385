package grpcmw

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/latchkey-go/latchkey"
)

// Option is a rule, such as [Method], or a setting, such as [BusyCode].
type Option func(*RuleSet)

// Method locks calls of one method, given by its full name as in "/shop.v1.Orders/Reserve": the constants that end in
// _FullMethodName in generated code. An empty template locks the method as a whole.
func Method(fullMethod, template string, opts ...latchkey.DecoratorOption) Option {
	return func(s *RuleSet) {
		fullMethod := "/" + strings.TrimPrefix(fullMethod, "/")
		if s.methods[fullMethod] != nil {
			s.failf("Method(%q): there are two rules for it", fullMethod)
		}
		s.methods[fullMethod] = s.locks.WithLock(template, opts...)
	}
}

// Service locks calls of all methods of one service, given by its full name as in "shop.v1.Orders", except those that
// have a rule of their own. The template must fit the requests of all of them.
func Service(name, template string, opts ...latchkey.DecoratorOption) Option {
	return func(s *RuleSet) {
		name := strings.Trim(name, "/")
		if s.services[name] != nil {
			s.failf("Service(%q): there are two rules for it", name)
		}
		s.services[name] = s.locks.WithLock(template, opts...)
	}
}

// Default locks calls of every method that no other rule is about. Which methods there are is known to the server only:
// a template that does not fit one of them fails in [RuleSet.Check], or when the method is called.
func Default(template string, opts ...latchkey.DecoratorOption) Option {
	return func(s *RuleSet) {
		if s.fallback != nil {
			s.failf("Default: there are two of them")
		}
		s.fallback = s.locks.WithLock(template, opts...)
	}
}

// Unlocked lets methods run without a lock that [Service], [Default] or an annotation would lock. A method that its service
// does not have, or that [Method] locks, is an error; of a service without a descriptor only [RuleSet.Check] can tell.
func Unlocked(fullMethods ...string) Option {
	return func(s *RuleSet) {
		for _, m := range fullMethods {
			s.unlocked["/"+strings.TrimPrefix(m, "/")] = true
		}
	}
}

// Files adds descriptors to look methods up in, besides those of the program's generated code: for services that are
// known by their descriptors only.
func Files(files *protoregistry.Files) Option {
	return func(s *RuleSet) { s.files = append(s.files, files) }
}

// BusyCode is the code of the status for a busy lock, instead of Aborted.
func BusyCode(code codes.Code) Option {
	return func(s *RuleSet) {
		if code == codes.OK {
			s.failf("BusyCode(OK): a call that did not run can't be OK")
		}
		s.busyCode = code
	}
}

// OnError hears of calls that did not get their lock or lost it, and may change the status that the caller gets: it returns
// st, or another one, never OK. err says what happened and is for logs, not for callers: it has the key in it.
func OnError(f func(ctx context.Context, fullMethod string, st *status.Status, err error) *status.Status) Option {
	return func(s *RuleSet) { s.onError = f }
}
