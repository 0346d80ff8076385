package grpcmw

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/latchkey-go/latchkey"
	lockpb "github.com/latchkey-go/latchkey/proto/latchkey/v1"
)

// FromAnnotations locks the methods whose .proto file says so by the option (latchkey.v1.lock). opts are added to what
// each of them says, before it: for what a .proto file can't state.
//
// All services that are registered when the rules are made are checked then. A service that is registered later is
// checked when one of its methods is first called; if its annotation is wrong the call does not run and the status
// is Internal. So it is with annotated streams if opts has [latchkey.Transactional], which no stream can have:
// [RuleSet.Check] finds those that the server has.
func FromAnnotations(opts ...latchkey.DecoratorOption) Option {
	return func(s *RuleSet) {
		s.annotated = true
		s.addOpts = append(s.addOpts, opts...)
	}
}

// eachAnnotated calls f for every registered method that has an annotation in force.
func (s *RuleSet) eachAnnotated(f func(method string)) {
	if !s.annotated {
		return
	}
	for _, files := range s.files {
		files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for j := range methods.Len() {
					if lock, err := annotationOf(methods.Get(j)); lock != nil || err != nil {
						f(fullMethod(methods.Get(j)))
					}
				}
			}
			return true
		})
	}
}

// annotationOf returns a method's lock, nil if it has none. Its options may be of any kind: generated, dynamic, or parsed
// by a program that did not know the extension then. So they are written out and read again with it known.
func annotationOf(m protoreflect.MethodDescriptor) (*lockpb.Lock, error) {
	given := m.Options()
	if given == nil || !given.ProtoReflect().IsValid() {
		return nil, nil
	}
	wire, err := proto.Marshal(given)
	if err != nil || len(wire) == 0 {
		return nil, err
	}
	options := new(descriptorpb.MethodOptions)
	if err := (proto.UnmarshalOptions{Resolver: known}).Unmarshal(wire, options); err != nil {
		return nil, fmt.Errorf("the method's options can't be read: %w", err)
	}
	if !proto.HasExtension(options, lockpb.E_Lock) {
		return nil, nil
	}
	lock, ok := proto.GetExtension(options, lockpb.E_Lock).(*lockpb.Lock)
	if !ok {
		return nil, errors.New("the option (latchkey.v1.lock) is of another type")
	}
	return lock, nil
}

// known knows the extension and nothing else.
var known = func() *protoregistry.Types {
	types := new(protoregistry.Types)
	if err := types.RegisterExtension(lockpb.E_Lock); err != nil {
		panic(err) // there is nothing that it could conflict with
	}
	return types
}()

// annotation makes a decorator of a method's annotation; nil if it has none.
func (s *RuleSet) annotation(m protoreflect.MethodDescriptor) (*latchkey.Decorator, error) {
	lock, err := annotationOf(m)
	if lock == nil || err != nil {
		return nil, err
	}
	opts := append([]latchkey.DecoratorOption(nil), s.addOpts...)
	duration := func(field, text string, option func(time.Duration) latchkey.HoldOption) {
		if text == "" {
			return
		}
		d, parseErr := time.ParseDuration(text)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %q is no duration; write 3s, 500ms or 1m30s", field, text))
			return
		}
		opts = append(opts, option(d))
	}
	if lock.GetWait() == "forever" {
		opts = append(opts, latchkey.WaitForever())
	} else {
		duration("wait", lock.GetWait(), latchkey.Wait)
	}
	duration("renewed_lease", lock.GetRenewedLease(), latchkey.RenewedLease)
	duration("lease", lock.GetLease(), latchkey.LeaseFor)
	duration("max_hold", lock.GetMaxHold(), latchkey.MaxHold)
	if lock.GetLease() != "" && lock.GetRenewedLease() != "" {
		err = errors.Join(err, errors.New("lease and renewed_lease: a lease is either fixed or renewed; leave one out"))
	}
	if lock.GetFair() || lock.GetShared() {
		err = errors.Join(err, errors.New("fair and shared are not offered by this version; leave them out"))
	}
	if lock.GetWhen() != "" {
		opts = append(opts, latchkey.When(lock.GetWhen()))
	}
	if lock.GetPrefix() != "" {
		opts = append(opts, latchkey.Prefix(lock.GetPrefix()))
	}
	if lock.GetName() != "" {
		opts = append(opts, latchkey.Name(lock.GetName()))
	}
	if lock.GetMaxKeys() > 0 {
		opts = append(opts, latchkey.MaxKeys(int(lock.GetMaxKeys())))
	}
	if lock.GetMintToken() {
		opts = append(opts, latchkey.MintToken())
	}
	if err != nil {
		return nil, err
	}
	return s.locks.WithLock(lock.GetKey(), opts...), nil
}
