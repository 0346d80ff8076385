package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/latchkey-go/latchkey"
)

// RuleSet is a set of rules that fits the methods it is about. It is safe for concurrent use. Make one with [Rules].
type RuleSet struct {
	locks     *latchkey.Locks
	methods   map[string]*latchkey.Decorator
	services  map[string]*latchkey.Decorator
	fallback  *latchkey.Decorator
	unlocked  map[string]bool
	annotated bool
	addOpts   []latchkey.DecoratorOption // to annotations
	files     []*protoregistry.Files
	busyCode  codes.Code
	accept    bool // locks that callers bring along
	onError   func(context.Context, string, *status.Status, error) *status.Status
	errs      []error

	entries sync.Map       // of *entry, by full method
	given   [2]atomic.Bool // interceptors, by whether they are for streams
}

// entry is what is to be done about a method.
type entry struct {
	bound  *latchkey.Bound // nil: it runs without a lock
	err    error           // or can't be locked, and does not run
	stream bool
}

func (s *RuleSet) failf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("grpcmw: "+format, args...))
}

// Rules returns a set of rules, or an error that names everything that is wrong with them. It is for rules that come
// from configuration, and for [RuleSet.Check]; [ServerOptions] is shorter.
func Rules(locks *latchkey.Locks, opts ...Option) (*RuleSet, error) {
	if locks == nil {
		return nil, errors.New("grpcmw: locks is nil; make them with latchkey.New(store)")
	}
	s := &RuleSet{
		locks: locks, busyCode: codes.Aborted,
		methods: make(map[string]*latchkey.Decorator), services: make(map[string]*latchkey.Decorator),
		unlocked: make(map[string]bool), files: []*protoregistry.Files{protoregistry.GlobalFiles},
	}
	for i, o := range opts {
		if o == nil {
			s.failf("option %d is nil; leave it out", i+1)
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
	for name := range s.unlocked {
		s.checkUnlocked(name)
		s.entries.Store(name, &entry{})
	}
	for name := range s.services {
		if _, ok := s.find(name).(protoreflect.ServiceDescriptor); !ok {
			s.failf("Service(%q): %s", name, notRegistered)
		}
	}
	s.eachNamed(func(method string) {
		if e := s.lookUp(method); e.err != nil {
			s.failf("%s: %w", method, e.err)
		}
	})
	s.eachAnnotated(func(method string) {
		// An annotation can't say Transactional, and the program may link what it does not serve: Check knows.
		if e := s.lookUp(method); e.err != nil && !errors.Is(e.err, errStreamInTx) {
			s.failf("%s: %w", method, e.err)
		}
	})
}

var errStreamInTx = errors.New("a stream can't run in one transaction, as its lock comes with its first message; " +
	"leave Transactional out and begin transactions in the method")

// checkUnlocked finds names that can't be meant. One of a service that is not registered may be: its server knows.
func (s *RuleSet) checkUnlocked(method string) {
	service, name, ok := strings.Cut(method[1:], "/")
	d, known := s.find(service).(protoreflect.ServiceDescriptor)
	switch {
	case s.methods[method] != nil:
		s.failf("Unlocked(%q): there is a rule for it, too: Method; leave one of them out", method)
	case !ok || service == "" || name == "":
		s.failf("Unlocked(%q): name a method as in /package.Service/Method", method)
	case known && d.Methods().ByName(protoreflect.Name(name)) == nil:
		s.failf("Unlocked(%q): %s has no such method", method, service)
	}
}

// eachNamed calls f for every method that is known to have a rule in code.
func (s *RuleSet) eachNamed(f func(method string)) {
	for name := range s.methods {
		f(name)
	}
	for name := range s.services {
		if service, ok := s.find(name).(protoreflect.ServiceDescriptor); ok {
			for i := range service.Methods().Len() {
				f(fullMethod(service.Methods().Get(i)))
			}
		}
	}
}

const notRegistered = "nothing of that name is registered; import its generated package, or pass its descriptor with Files"

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
	stream := m.IsStreamingClient() || m.IsStreamingServer()
	bound, err := bind(d, method, m)
	if err == nil && bound.Transactional() && stream {
		err = errStreamInTx
	}
	return &entry{bound, err, stream}
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
	switch service {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return nil, nil
	}
	return s.fallback, nil
}
