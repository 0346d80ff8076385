package grpcmw

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/latchkey-go/latchkey"
)

// The two kinds of methods, each with interceptors of its own that never see the other.
const unaryKind, streamKind = 0, 1

func kindOf(stream bool) int {
	if stream {
		return streamKind
	}
	return unaryKind
}

// ServerOptions returns what makes a server run its methods, streams too, under the locks that the rules give them:
//
//	grpc.NewServer(grpcmw.ServerOptions(locks, rules...)...)
//
// Interceptors in options before these run before the lock is taken, those after them under it.
//
// It panics if a rule is wrong or does not fit its method, as these are mistakes in the program; [Rules] returns the
// error instead.
func ServerOptions(locks *latchkey.Locks, rules ...Option) []grpc.ServerOption {
	return mustRules(locks, rules).ServerOptions()
}

// ServerOptions is the function of that name for rules that are made already.
func (s *RuleSet) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary()), grpc.ChainStreamInterceptor(s.Stream())}
}

// UnaryServerInterceptor returns an interceptor that runs unary methods under the locks that the rules give them. It never
// sees a stream, so it panics if a rule is about one, or may be; [ServerOptions] takes rules for both. It is safe for
// concurrent use.
func UnaryServerInterceptor(locks *latchkey.Locks, rules ...Option) grpc.UnaryServerInterceptor {
	return mustRules(locks, rules).mustBe(unaryKind).Unary()
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams: it panics if a rule is about a unary method.
func StreamServerInterceptor(locks *latchkey.Locks, rules ...Option) grpc.StreamServerInterceptor {
	return mustRules(locks, rules).mustBe(streamKind).Stream()
}

func mustRules(locks *latchkey.Locks, rules []Option) *RuleSet {
	s, err := Rules(locks, rules...)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// mustBe panics if a rule is about methods of the other kind.
func (s *RuleSet) mustBe(kind int) *RuleSet {
	var errs []error
	is := [...]string{unaryKind: "no stream", streamKind: "a stream"}
	const instead = "would run without its lock under this interceptor alone; give the server ServerOptions"
	refuse := func(method string) {
		if e := s.lookUp(method); e.bound != nil && kindOf(e.stream) != kind {
			errs = append(errs, fmt.Errorf("grpcmw: %s is %s and %s", method, is[kindOf(e.stream)], instead))
		}
	}
	s.eachNamed(refuse)
	s.eachAnnotated(refuse)
	if s.fallback != nil {
		errs = append(errs, errors.New("grpcmw: Default is about streams and other methods: either "+instead))
	}
	if err := errors.Join(errs...); err != nil {
		panic(err.Error())
	}
	return s
}

// misses says which interceptor the server lacks for a method that has a rule; nil if none.
func (s *RuleSet) misses(e *entry, stream bool) error {
	kind := kindOf(stream)
	if e.bound == nil || s.given[kind].Load() {
		return nil
	}
	return fmt.Errorf("it would run without its lock: the server does not have the interceptor that %s returns; "+
		"give it these rules' ServerOptions()", [...]string{unaryKind: "Unary()", streamKind: "Stream()"}[kind])
}
