package grpcmw

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"
)

// Check reports what is wrong with the rules for the services that srv, a [*grpc.Server], has: a method or service in a
// rule that it does not serve, a default that does not fit, methods with a rule whose kind of interceptor these rules were
// never asked for. Call it when all services are registered.
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
			e := s.lookUp(full)
			if err := errors.Join(e.err, s.misses(e, m.IsClientStream || m.IsServerStream)); err != nil {
				errs = append(errs, fmt.Errorf("grpcmw: %s: %w", full, err))
			}
		}
	}
	for name := range s.methods {
		if !served[name] {
			errs = append(errs, fmt.Errorf("grpcmw: Method(%q): the server does not serve it", name))
		}
	}
	for name := range s.unlocked {
		if !served[name] {
			errs = append(errs, fmt.Errorf("grpcmw: Unlocked(%q): the server does not serve it", name))
		}
	}
	for name := range s.services {
		if !served[name] {
			errs = append(errs, fmt.Errorf("grpcmw: Service(%q): the server does not serve it", name))
		}
	}
	return errors.Join(errs...)
}
