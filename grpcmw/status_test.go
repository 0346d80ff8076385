package grpcmw_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
)

// downStore is a store whose server is not there.
type downStore struct{}

var errDown = errors.New("dial tcp 10.1.2.3:6379: secret backend")

func (downStore) Capabilities() latchkey.Capabilities      { return latchkey.Capabilities{Instant: true} }
func (downStore) Listen(func(latchkey.Push)) (stop func()) { return func() {} }
func (downStore) Do(_ context.Context, ops []*latchkey.Op) {
	for _, op := range ops {
		op.Err, op.Final = errDown, true
	}
}

// checkSecrets looks for what no status may contain.
func checkSecrets(t *testing.T, err error) {
	t.Helper()
	text := status.Convert(err).Proto().String()
	for _, secret := range []string{"order:zebra", "zebra", "secret", "10.1.2.3", "lk:"} {
		if strings.Contains(text, secret) {
			t.Errorf("the status %q has %q in it", text, secret)
		}
	}
}

var zebra = &testpb.ReserveRequest{OrderId: "zebra"}

func never(t *testing.T) func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
	return func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		t.Error("the method ran without its lock")
		return &testpb.ReserveResponse{}, nil
	}
}

func TestABusyLockIsAborted(t *testing.T) {
	for name, c := range map[string]struct {
		here bool // held by the server's own process
		wait time.Duration
	}{
		"by another process":                {false, 0},
		"by another process, after a wait":  {false, 30 * time.Millisecond},
		"by the same process":               {true, 0},
		"by the same process, after a wait": {true, 30 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.Wait(c.wait)))
			s.unary = never(t)
			if c.here {
				s.others = s.locks
			}
			s.hold(t, "order:zebra")
			_, err := s.client.Reserve(t.Context(), zebra)
			retry, _ := detail[*errdetails.RetryInfo](err)
			if d := retry.GetRetryDelay().AsDuration(); status.Code(err) != codes.Aborted || reason(err) != "LOCK_BUSY" || d < 29*time.Second || d > 30*time.Second {
				t.Errorf("%v, retry in %v", err, d)
			}
			checkSecrets(t, err)
		})
	}
}

func TestTheCodeOfABusyLockCanBeChanged(t *testing.T) {
	s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}"), grpcmw.BusyCode(codes.ResourceExhausted))
	s.hold(t, "order:zebra")
	if _, err := s.client.Reserve(t.Context(), zebra); status.Code(err) != codes.ResourceExhausted || reason(err) != "LOCK_BUSY" {
		t.Errorf("%v", err)
	}
}

// A wait that the caller's deadline ended was for a busy lock: the server says so, and not DeadlineExceeded.
func TestADeadlineThatEndsAWaitIsStillBusy(t *testing.T) {
	waiting, heard := make(chan struct{}, 10), make(chan error, 10)
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventWaiting {
			waiting <- struct{}{}
		}
	}, nil, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.WaitForever()),
		grpcmw.OnError(func(_ context.Context, _ string, st *status.Status, _ error) *status.Status {
			heard <- st.Err()
			return st
		}))
	s.unary = never(t)
	s.hold(t, "order:zebra")
	for limit := 50 * time.Millisecond; ; limit *= 4 { // on a machine that is busy the call may not get as far as to wait
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := s.client.Reserve(ctx, zebra)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Aborted {
			t.Errorf("client: %v", err)
		}
		select {
		case <-waiting:
		default:
			if limit < 10*time.Second {
				continue
			}
			t.Fatal("it never waited")
		}
		break
	}
	s.server.GracefulStop() // so that the calls are over here too
	var busy int
	for len(heard) > 0 {
		if err := <-heard; status.Code(err) == codes.Aborted && reason(err) == "LOCK_BUSY" {
			busy++
		}
	}
	if busy != 1 {
		t.Errorf("the server said %d times that the lock is busy, want once", busy)
	}
}

func TestAStoreThatIsDownIsUnavailable(t *testing.T) {
	down := latchkey.New(downStore{})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(
		grpcmw.UnaryServerInterceptor(down, grpcmw.Method(reserve, "order:#{req.order_id}"))))
	s := &shop{unary: never(t)}
	testpb.RegisterShopServer(server, s)
	_, err := testpb.NewShopClient(serve(t, server)).Reserve(t.Context(), zebra)
	if status.Code(err) != codes.Unavailable || reason(err) != "LOCK_STORE_UNAVAILABLE" {
		t.Errorf("%v", err)
	}
	checkSecrets(t, err)
}

func TestACallerThatIsGoneBeforeAnyHolderWasSeen(t *testing.T) {
	locks := latchkey.New(downStore{})
	unary := grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(reserve, "order:#{req.order_id}"))
	for want, ctx := range map[codes.Code]context.Context{
		codes.Canceled:         canceled(t),
		codes.DeadlineExceeded: expired(t),
	} {
		_, err := unary(ctx, zebra, &grpc.UnaryServerInfo{FullMethod: reserve}, func(context.Context, any) (any, error) {
			t.Error("it ran")
			return nil, nil
		})
		if status.Code(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
		checkSecrets(t, err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	t.Cleanup(cancel)
	return ctx
}

func TestALeaseThatIsLost(t *testing.T) {
	own := status.Error(codes.FailedPrecondition, "own answer")
	var heard atomic.Int32
	s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}", latchkey.LeaseFor(20*time.Millisecond)),
		grpcmw.OnError(func(_ context.Context, method string, st *status.Status, err error) *status.Status {
			if errors.Is(err, latchkey.ErrLeaseLost) && method == reserve {
				heard.Add(1)
			}
			return st
		}))
	s.loses = true
	for name, c := range map[string]struct {
		err    error
		code   codes.Code
		reason string
	}{
		"work done":          {nil, codes.Unknown, "LEASE_LOST"},
		"ended by the ctx":   {context.Canceled, codes.Unknown, "LEASE_LOST"},
		"an own status":      {own, codes.FailedPrecondition, ""},
		"a status of an end": {status.FromContextError(context.Canceled).Err(), codes.Unknown, "LEASE_LOST"},
	} {
		s.unary = func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), latchkey.ErrLeaseLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return &testpb.ReserveResponse{}, c.err
		}
		_, err := s.client.Reserve(t.Context(), &testpb.ReserveRequest{OrderId: "zebra" + name})
		if status.Code(err) != c.code || reason(err) != c.reason {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
		checkSecrets(t, err)
	}
	if heard.Load() != 4 {
		t.Errorf("OnError heard %d losses, want 4", heard.Load())
	}
}

func TestTheMethodsOwnErrorPassesUntouched(t *testing.T) {
	s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}"))
	for _, want := range []error{
		status.Error(codes.NotFound, "no such order"), &latchkey.BusyError{Key: "its own"}, context.DeadlineExceeded,
	} {
		s.unary = func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error) { return nil, want }
		unlocked := func() error {
			_, err := s.client.Peek(t.Context(), zebra)
			return err
		}()
		if _, err := s.client.Reserve(t.Context(), zebra); err.Error() != unlocked.Error() {
			t.Errorf("%v, without the lock %v", err, unlocked)
		}
	}
}

func TestOnErrorAnswersInstead(t *testing.T) {
	s := open(t, grpcmw.Method(reserve, "order:#{req.order_id}"),
		grpcmw.OnError(func(_ context.Context, _ string, st *status.Status, err error) *status.Status {
			var busy *latchkey.BusyError
			if !errors.As(err, &busy) || busy.Key != "order:zebra" || st.Code() != codes.Aborted {
				t.Errorf("heard %v, %v", st, err)
			}
			return status.New(codes.FailedPrecondition, "come back later")
		}))
	s.hold(t, "order:zebra")
	if _, err := s.client.Reserve(t.Context(), zebra); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
	s = open(t, grpcmw.Method(reserve, "order:#{req.order_id}"),
		grpcmw.OnError(func(context.Context, string, *status.Status, error) *status.Status { return status.New(codes.OK, "") }))
	s.hold(t, "order:zebra")
	if _, err := s.client.Reserve(t.Context(), zebra); status.Code(err) != codes.Aborted {
		t.Errorf("a call that did not run was made %v", err)
	}
}

// The client's own retry policy is enough to get through: Aborted says that nothing ran.
func TestAClientsRetryPolicyGetsThrough(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{"service": "latchkey.test.v1.Shop"}], "retryPolicy": {"maxAttempts": 5,
		"initialBackoff": "0.02s", "maxBackoff": "0.02s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}}]}`
	var release func()
	var refused atomic.Int32
	s := openWith(t, func(_ context.Context, e latchkey.Event) {
		if e.Kind == latchkey.EventRefused && refused.Add(1) == 2 {
			release()
		}
	}, []grpc.DialOption{grpc.WithDefaultServiceConfig(policy)}, grpcmw.Method(reserve, "order:#{req.order_id}"))
	release = s.hold(t, "order:zebra")
	resp, err := s.client.Reserve(t.Context(), zebra)
	if err != nil || len(resp.GetKeys()) != 1 || refused.Load() < 2 {
		t.Errorf("%v, %v after %d refusals", resp, err, refused.Load())
	}
}
