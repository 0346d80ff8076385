package grpcmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/httpmw"
)

var sends = []grpc.DialOption{
	grpc.WithChainUnaryInterceptor(grpcmw.SendLeases()), grpc.WithChainStreamInterceptor(grpcmw.SendLeasesStream()),
}

// Service A holds order:zebra and calls service B, which locks it too. Both sides have to agree.
func TestALockTravelsWithTheCallIfBothSidesAgree(t *testing.T) {
	rule := grpcmw.Service("latchkey.test.v1.Shop", "order:#{req.order_id}")
	for name, c := range map[string]struct {
		dial    []grpc.DialOption
		rules   []grpcmw.Option
		entered bool
	}{
		"both":        {sends, []grpcmw.Option{rule, grpcmw.AcceptLeases()}, true},
		"caller only": {sends, []grpcmw.Option{rule}, false},
		"callee only": {nil, []grpcmw.Option{rule, grpcmw.AcceptLeases()}, false},
	} {
		s := openWith(t, nil, c.dial, c.rules...)
		s.chat = func(stream chatStream) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			resp, _ := sayKeys(stream.Context(), nil)
			return stream.Send(resp)
		}
		inA, err := s.others.Acquire(t.Context(), "order:zebra")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Reserve(inA.Context(), zebra)
		if entered := err == nil && strings.Join(resp.GetKeys(), " ") == "order:zebra"; entered != c.entered {
			t.Errorf("%s, unary: %v, %v", name, resp, err)
		}
		if !c.entered && status.Code(err) != codes.Aborted {
			t.Errorf("%s, unary: %v", name, err)
		}
		stream, err := s.client.Chat(inA.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(zebra)
		resp, err = stream.Recv()
		if entered := err == nil && strings.Join(resp.GetKeys(), " ") == "order:zebra"; entered != c.entered {
			t.Errorf("%s, stream: %v, %v", name, resp, err)
		}
		_, _ = stream.Recv()
		if err := inA.Release(t.Context()); err != nil {
			t.Errorf("%s: the caller's own release: %v", name, err)
		}
	}
}

// An HTTP handler holds the lock and calls a gRPC method over it, and the other way round.
func TestALockTravelsBetweenHTTPAndGRPC(t *testing.T) {
	s := openWith(t, nil, sends, grpcmw.Method(reserve, "order:#{req.order_id}"), grpcmw.AcceptLeases())
	lock := s.others.WithLock("order:#{path.id}")
	mux := http.NewServeMux()
	mux.Handle("/call/{id}", httpmw.New(lock)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := s.client.Reserve(r.Context(), &testpb.ReserveRequest{OrderId: r.PathValue("id")}); err != nil {
			t.Error(err)
		}
	})))
	mux.Handle("/plain/{id}", httpmw.New(lock, httpmw.AcceptLeases())(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))
	mux.Handle("/closed/{id}", httpmw.New(lock)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a lock was accepted that nobody wanted to accept")
	})))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	client := &http.Client{Transport: httpmw.Transport(srv.Client().Transport)}
	get := func(ctx context.Context, path string) int {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if code := get(t.Context(), "/call/zebra"); code != http.StatusOK {
		t.Errorf("HTTP to gRPC: %d", code)
	}
	s.unary = func(ctx context.Context, r *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		if code := get(ctx, "/plain/"+r.GetOrderId()); code != http.StatusNoContent {
			t.Errorf("gRPC to HTTP: %d", code)
		}
		if code := get(ctx, "/closed/"+r.GetOrderId()); code != http.StatusConflict {
			t.Errorf("to a server that accepts none: %d", code)
		}
		if code := get(t.Context(), "/plain/"+r.GetOrderId()); code != http.StatusConflict {
			t.Errorf("from code that holds none: %d", code)
		}
		return &testpb.ReserveResponse{}, nil
	}
	if _, err := s.client.Reserve(t.Context(), zebra); err != nil {
		t.Error(err)
	}
}

// A callee that entered its caller's lock is told when the caller lets it go: its context ends, over either protocol.
func TestACalleeIsToldOverTheWireThatItsCallerHasReleased(t *testing.T) {
	entered, told := make(chan struct{}), make(chan error, 1)
	work := func(ctx context.Context) {
		entered <- struct{}{}
		<-ctx.Done()
		told <- context.Cause(ctx)
	}
	s := openWith(t, nil, sends, grpcmw.Method(reserve, "order:#{req.order_id}"), grpcmw.AcceptLeases())
	s.unary = func(ctx context.Context, _ *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		work(ctx)
		return &testpb.ReserveResponse{}, nil
	}
	mux := http.NewServeMux()
	mux.Handle("/{id}", httpmw.New(s.locks.WithLock("order:#{path.id}"), httpmw.AcceptLeases())(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { work(r.Context()) })))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	client := &http.Client{Transport: httpmw.Transport(srv.Client().Transport)}
	for name, call := range map[string]func(context.Context) error{
		"gRPC": func(ctx context.Context) error {
			_, err := s.client.Reserve(ctx, zebra)
			if status.Code(err) == codes.Unknown && reason(err) == "LEASE_LOST" {
				return nil
			}
			return err
		},
		"HTTP": func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/zebra", nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		},
	} {
		held, err := s.others.Acquire(t.Context(), "order:zebra")
		if err != nil {
			t.Fatal(err)
		}
		// The caller's own context outlives its lease, or the call would be cancelled from its end.
		ctx := context.WithoutCancel(held.Context())
		over := make(chan error, 1)
		go func() { over <- call(ctx) }()
		<-entered
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("%s: the caller's release: %v", name, err)
		}
		if cause := <-told; !errors.Is(cause, latchkey.ErrLeaseLost) {
			t.Errorf("%s: the callee's context ended with %v", name, cause)
		}
		if err := <-over; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
