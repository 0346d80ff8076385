package grpcmw_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

// An interceptor of one kind never sees the methods of the other: rules for those would do nothing, and say nothing.
func TestAnInterceptorOfOneKindRefusesRulesForTheOther(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	refuses := func(build func()) (said string) {
		defer func() {
			if r := recover(); r != nil {
				said = fmt.Sprint(r)
			}
		}()
		build()
		return ""
	}
	const shopService = "latchkey.test.v1.Shop"
	chat, key := grpcmw.Method(chatMethod, "order:#{req.order_id}"), "order:#{req.order_id}"
	onlyCalls := grpcmw.Unlocked(chatMethod, testpb.Shop_Watch_FullMethodName, testpb.Shop_Upload_FullMethodName)
	for name, c := range map[string]struct {
		rules          []grpcmw.Option
		unary, streams string // what the interceptors say; "" is nothing
	}{
		"a stream":            {[]grpcmw.Option{chat}, "Shop/Chat is a stream", ""},
		"a call":              {[]grpcmw.Option{grpcmw.Method(reserve, key)}, "", "Shop/Reserve is no stream"},
		"a service":           {[]grpcmw.Option{grpcmw.Service(shopService, key)}, "Shop/Watch is a stream", "Shop/Peek is no stream"},
		"a service, no calls": {[]grpcmw.Option{grpcmw.Service(shopService, key), onlyCalls}, "", "Shop/Peek is no stream"},
		"annotations":         {[]grpcmw.Option{grpcmw.FromAnnotations()}, "Annotated/Chat is a stream", "Annotated/Whole is no stream"},
		"default":             {[]grpcmw.Option{grpcmw.Default("all")}, "Default", "Default"},
	} {
		for kind, got := range map[string][2]string{
			"unary":  {refuses(func() { grpcmw.UnaryServerInterceptor(locks, c.rules...) }), c.unary},
			"stream": {refuses(func() { grpcmw.StreamServerInterceptor(locks, c.rules...) }), c.streams},
			"both":   {refuses(func() { grpcmw.ServerOptions(locks, c.rules...) }), ""},
		} {
			if said, want := got[0], got[1]; !strings.Contains(said, want) || (said == "") != (want == "") ||
				want != "" && !strings.Contains(said, "ServerOptions") {
				t.Errorf("%s, %s interceptor: %q; want %q", name, kind, said, want)
			}
		}
	}
}

func TestCheckTellsOfAnInterceptorThatTheServerDoesNotHave(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for name, c := range map[string]struct {
		options func(*grpcmw.RuleSet) []grpc.ServerOption
		want    []string
	}{
		"both": {(*grpcmw.RuleSet).ServerOptions, nil},
		"unary": {func(s *grpcmw.RuleSet) []grpc.ServerOption {
			return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary())}
		}, []string{"Shop/Chat", "Shop/Watch", "Shop/Upload", "Stream()"}},
		"stream": {func(s *grpcmw.RuleSet) []grpc.ServerOption {
			return []grpc.ServerOption{grpc.ChainStreamInterceptor(s.Stream())}
		}, []string{"Shop/Reserve", "Shop/Cancel", "Unary()"}},
	} {
		rules := mustRules(t, locks, grpcmw.Default("all"), grpcmw.Unlocked(testpb.Shop_Peek_FullMethodName))
		server := grpc.NewServer(c.options(rules)...)
		testpb.RegisterShopServer(server, &shop{})
		reflection.Register(server)
		err := rules.Check(server)
		server.Stop()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %q", name, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "Peek") {
			t.Errorf("%s: %v: Peek needs no interceptor", name, err)
		}
	}
}

func TestStreamsOfAServerWiredAsDocumentedAreLocked(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	defer locks.Close()
	s := &shop{chat: func(stream chatStream) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		r, _ := sayKeys(stream.Context(), nil)
		return stream.Send(r)
	}}
	server := grpc.NewServer(grpcmw.ServerOptions(locks, grpcmw.FromAnnotations())...)
	testpb.RegisterAnnotatedServer(server, annotatedShop{s: s})
	c, err := testpb.NewAnnotatedClient(serve(t, server)).Chat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Send(&testpb.ReserveRequest{OrderId: "1"})
	if r, err := c.Recv(); err != nil || strings.Join(r.GetKeys(), " ") != "order:1" {
		t.Errorf("%v, %v", r, err)
	}
	_ = c.CloseSend()
	soon(t, "released", func() bool { return store.Len() == 0 })
}

// Only gRPC's own services run unlocked under a default, not every service whose name begins like theirs.
func TestADefaultLocksServicesThatAreNamedLikeGRPCsOwn(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for _, pkg := range []string{"grpc.orders.v1", "grpc.health.mine", "grpc.reflection.mine"} {
		files := new(protoregistry.Files)
		fd := catalogue(t, pkg, nil)
		if err := files.RegisterFile(fd); err != nil {
			t.Fatal(err)
		}
		get := serveCatalogue(t, fd, mustRules(t, locks, grpcmw.Default("all"), grpcmw.Files(files)))
		if key, err := get("rum"); err != nil || key != "all" {
			t.Errorf("%s: %q, %v", pkg, key, err)
		}
	}
}

func TestHealthAndReflectionRunWithoutALockUnderADefault(t *testing.T) {
	for name, rules := range map[string][]grpcmw.Option{
		"default": {grpcmw.Default("all")},
		"control": {grpcmw.Default("all"), grpcmw.Service("grpc.health.v1.Health", "all"), grpcmw.Service("grpc.reflection.v1.ServerReflection", "all")},
	} {
		store := memstore.New()
		locks := latchkey.New(store)
		server := grpc.NewServer(grpcmw.ServerOptions(locks, rules...)...)
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		reflection.Register(server)
		conn := serve(t, server)
		busy, err := locks.Acquire(t.Context(), "all") // whoever needs the lock is refused
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]codes.Code{"default": codes.OK, "control": codes.Aborted}[name]
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != want {
			t.Errorf("%s: health: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		info, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = info.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
		if _, err := info.Recv(); status.Code(err) != want {
			t.Errorf("%s: reflection: %v", name, err)
		}
		cancel()
		_ = busy.Release(t.Context())
		locks.Close()
	}
}

func TestUnlockedContradictsNoRuleAndHasNoTypos(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for name, want := range map[string]string{
		reserve: "there is a rule for it, too", "/latchkey.test.v1.Shop/Pek": "latchkey.test.v1.Shop has no such method",
		"latchkey.test.v1.Shop.Peek": "/package.Service/Method", "": "/package.Service/Method",
	} {
		_, err := grpcmw.Rules(locks, grpcmw.Default("all"), grpcmw.Method(reserve, "one"), grpcmw.Unlocked(name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Unlocked(%q): %v\nwant %q", name, err, want)
		}
	}
	// A service without a descriptor is known to the server only.
	rules := mustRules(t, locks, grpcmw.Unlocked("/raw.Bytes/Put", "raw.Bytes/Putt", testpb.Shop_Peek_FullMethodName))
	server := grpc.NewServer(rules.ServerOptions()...)
	defer server.Stop()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "raw.Bytes", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Put"}},
	}, struct{}{})
	testpb.RegisterShopServer(server, &shop{})
	err := rules.Check(server)
	if err == nil || strings.Count(err.Error(), "Unlocked(") != 1 || !strings.Contains(err.Error(), `"/raw.Bytes/Putt"): the server does not serve it`) {
		t.Errorf("%v", err)
	}
}
