//go:build unix

package transactions

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// teller is a gRPC service whose method runs in a transaction under a lock. Health is the service that comes with grpc.
type teller struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(context.Context) error
}

func (s *teller) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, s.check(ctx)
}

func TestAMethodInATransaction(t *testing.T) {
	d := newDatabase(t, "sqlite")
	db := d.open(t, 4)
	for name, c := range map[string]struct {
		then   func(context.Context) error
		code   codes.Code
		reason string
		added  int
	}{
		"committed":    {func(context.Context) error { return nil }, codes.OK, "", 1},
		"an own error": {func(context.Context) error { return status.Error(codes.NotFound, "own") }, codes.NotFound, "", 0},
		"a hook refuses": {func(ctx context.Context) error {
			return latchkey.BeforeCommit(ctx, func(context.Context) error { return errors.New("secret reason") })
		}, codes.Internal, "ROLLED_BACK", 0},
		"the lease is lost": {func(ctx context.Context) error { <-ctx.Done(); return nil }, codes.Aborted, "LEASE_LOST", 0},
	} {
		t.Run(name, func(t *testing.T) {
			db.MustExec("UPDATE account SET n = 0")
			maxHold := time.Minute
			if c.reason == "LEASE_LOST" {
				maxHold = 50 * time.Millisecond
			}
			locks := latchkey.New(memstore.New())
			defer locks.Close()
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(
				grpc_health_v1.Health_Check_FullMethodName, "account:#{req.service}",
				latchkey.Transactional(latchkey.NewTxManager(db)), latchkey.MaxHold(maxHold)))))
			grpc_health_v1.RegisterHealthServer(server, &teller{check: func(ctx context.Context) error {
				tx, ok := latchkey.TxFrom(ctx)
				if !ok || !locks.Held(ctx, "account:a") {
					t.Error("no transaction, or no lock")
				}
				return errors.Join(add(ctx, tx, "a", 1), c.then(ctx))
			}})
			err := callHealth(t, server)
			info := ""
			for _, d := range status.Convert(err).Details() {
				if d, ok := d.(*errdetails.ErrorInfo); ok {
					info = d.GetReason()
				}
			}
			if status.Code(err) != c.code || info != c.reason || strings.Contains(status.Convert(err).Message(), "secret") {
				t.Errorf("%v (%s), want %v (%s)", err, info, c.code, c.reason)
			}
			if n := value(t, db, "a"); n != c.added {
				t.Errorf("the account is at %d, want %d", n, c.added)
			}
		})
	}
}

func callHealth(t *testing.T, server *grpc.Server) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "a"})
	return err
}

func TestAStreamCanNotBeOneTransaction(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	m := latchkey.NewTxManager(newDatabase(t, "sqlite").open(t, 1))
	_, err := grpcmw.Rules(locks, grpcmw.Method(grpc_health_v1.Health_Watch_FullMethodName, "a", latchkey.Transactional(m)))
	if err == nil || !strings.Contains(err.Error(), "a stream can't run in one transaction") {
		t.Errorf("%v", err)
	}
}
