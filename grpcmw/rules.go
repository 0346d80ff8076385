package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
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
			s.fail("Method(%q): there are two rules for it", fullMethod)
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
			s.fail("Service(%q): there are two rules for it", name)
		}
		s.services[name] = s.locks.WithLock(template, opts...)
	}
}

// Default locks calls of every method that no other rule is about. Which methods there are is known to the server only:
// a template that does not fit one of them fails in [RuleSet.Check], or when the method is called.
func Default(template string, opts ...latchkey.DecoratorOption) Option {
	return func(s *RuleSet) {
		if s.fallback != nil {
			s.fail("Default: there are two of them")
		}
		s.fallback = s.locks.WithLock(template, opts...)
	}
}

// Unlocked lets methods run without a lock that [Service], [Default] or an annotation would lock.
func Unlocked(fullMethods ...string) Option {
	return func(s *RuleSet) {
		for _, m := range fullMethods {
			s.entries.Store("/"+strings.TrimPrefix(m, "/"), &entry{})
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
			s.fail("BusyCode(OK): a call that did not run can't be OK")
		}
		s.busyCode = code
	}
}

// OnError hears of calls that did not get their lock or lost it, and may change the status that the caller gets: it returns
// st, or another one, never OK. err says what happened and is for logs, not for callers: it has the key in it.
func OnError(f func(ctx context.Context, fullMethod string, st *status.Status, err error) *status.Status) Option {
	return func(s *RuleSet) { s.onError = f }
}

// RuleSet is a set of rules that fits the methods it is about. It is safe for concurrent use. Make one with [Rules].
type RuleSet struct {
	locks     *latchkey.Locks
	methods   map[string]*latchkey.Decorator
	services  map[string]*latchkey.Decorator
	fallback  *latchkey.Decorator
	annotated bool
	addOpts   []latchkey.DecoratorOption // to annotations
	files     []*protoregistry.Files
	busyCode  codes.Code
	accept    bool // locks that callers bring along
	onError   func(context.Context, string, *status.Status, error) *status.Status
	errs      []error

	entries sync.Map // of *entry, by full method
}

// entry is what is to be done about a method.
type entry struct {
	bound *latchkey.Bound // nil: it runs without a lock
	err   error           // or can't be locked, and does not run
}

func (s *RuleSet) fail(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("grpcmw: "+format, args...))
}

// Rules returns a set of rules, or an error that names everything that is wrong with them. It is for rules that come
// from configuration, and for [RuleSet.Check]; [UnaryServerInterceptor] is shorter.
func Rules(locks *latchkey.Locks, opts ...Option) (*RuleSet, error) {
	if locks == nil {
		return nil, errors.New("grpcmw: locks is nil; make them with latchkey.New(store)")
	}
	s := &RuleSet{
		locks: locks, busyCode: codes.Aborted,
		methods: make(map[string]*latchkey.Decorator), services: make(map[string]*latchkey.Decorator),
		files: []*protoregistry.Files{protoregistry.GlobalFiles},
	}
	for i, o := range opts {
		if o == nil {
			s.fail("option %d is nil; leave it out", i+1)
			continue
		}
		o(s)
	}
	s.compile()
	if err := errors.Join(s.errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// compile makes the entries of all methods that are known to have a rule.
func (s *RuleSet) compile() {
	for name := range s.methods {
		s.add(name)
	}
	for name := range s.services {
		service, ok := s.find(name).(protoreflect.ServiceDescriptor)
		if !ok {
			s.fail("Service(%q): %s", name, notRegistered)
			continue
		}
		for i := range service.Methods().Len() {
			s.add(fullMethod(service.Methods().Get(i)))
		}
	}
	if s.annotated {
		s.eachAnnotated(s.add)
	}
}

const notRegistered = "nothing of that name is registered; import its generated package, or pass its descriptor with Files"

func (s *RuleSet) add(method string) {
	if e := s.lookUp(method); e.err != nil {
		s.fail("%s: %w", method, e.err)
	}
}

// find returns a descriptor by its full name, nil if there is none.
func (s *RuleSet) find(name string) protoreflect.Descriptor {
	for _, files := range s.files {
		if d, err := files.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
			return d
		}
	}
	return nil
}

func fullMethod(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// lookUp returns what is to be done about a method, and remembers it unless nothing of that name is registered: a server
// with an unknown-service handler hears whatever names its callers make up.
func (s *RuleSet) lookUp(method string) *entry {
	if e, ok := s.entries.Load(method); ok {
		return e.(*entry) //nolint:forcetypeassert // nothing else is stored
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	m, _ := s.find(service + "." + name).(protoreflect.MethodDescriptor)
	decided := s.decide(method, service, m)
	if m == nil {
		return decided
	}
	e, _ := s.entries.LoadOrStore(method, decided)
	return e.(*entry) //nolint:forcetypeassert // nothing else is stored
}

func (s *RuleSet) decide(method, service string, m protoreflect.MethodDescriptor) *entry {
	d, err := s.rule(method, service, m)
	switch {
	case err != nil:
		return &entry{err: err}
	case d == nil:
		return &entry{}
	case m == nil:
		return &entry{err: errors.New(notRegistered)}
	}
	bound, err := bind(d, method, m)
	return &entry{bound: bound, err: err}
}

// rule returns the most specific rule for a method, nil if there is none.
func (s *RuleSet) rule(method, service string, m protoreflect.MethodDescriptor) (*latchkey.Decorator, error) {
	if d := s.methods[method]; d != nil {
		return d, nil
	}
	if s.annotated && m != nil {
		if d, err := s.annotation(m); d != nil || err != nil {
			return d, err
		}
	}
	if d := s.services[service]; d != nil {
		return d, nil
	}
	if strings.HasPrefix(service, "grpc.") { // health, reflection, channelz
		return nil, nil
	}
	return s.fallback, nil
}

// Check reports what is wrong with the rules for the services that srv, a [*grpc.Server], has: a method or service in a
// rule that it does not serve, a default that does not fit. Call it when all services are registered.
func (s *RuleSet) Check(srv interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}) error {
	var errs []error
	served := make(map[string]bool)
	for service, info := range srv.GetServiceInfo() {
		served[service] = true
		for _, m := range info.Methods {
			full := "/" + service + "/" + m.Name
			served[full] = true
			if e := s.lookUp(full); e.err != nil {
				errs = append(errs, fmt.Errorf("grpcmw: %s: %w", full, e.err))
			}
		}
	}
	for name := range s.methods {
		if !served[name] {
			errs = append(errs, fmt.Errorf("grpcmw: Method(%q): the server does not serve it", name))
		}
	}
	for name := range s.services {
		if !served[name] {
			errs = append(errs, fmt.Errorf("grpcmw: Service(%q): the server does not serve it", name))
		}
	}
	return errors.Join(errs...)
}
