package grpcmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/grpcmw"
	"github.com/latchkey-go/latchkey/grpcmw/internal/testpb"
	"github.com/latchkey-go/latchkey/memstore"
)

var full = &testpb.ReserveRequest{
	OrderId: "42", Number: -9007199254740993, Coupon: new("ten"), Level: new(int32(0)), Status: testpb.Status_STATUS_PAID,
	Customer: &testpb.Customer{Id: 18446744073709551615, ReferredBy: &testpb.Customer{Id: 2}},
	Items:    []*testpb.Item{{Sku: "rum", Quantity: 2}, {Sku: "gin"}, {Sku: "rum"}},
	Tags:     []string{"b", "a"}, History: []testpb.Status{testpb.Status_STATUS_PAID, 7},
	Labels: map[string]string{"zone": "eu", "dotted.name": "x"}, ByName: map[string]*testpb.Item{"one": {Sku: "ale"}},
	ByNumber: map[int32]string{3: "three"}, Target: &testpb.ReserveRequest_Warehouse{Warehouse: "w1"},
	Wrapped: wrapperspb.String("in"), WrappedNumber: wrapperspb.Int64(0), At: timestamppb.New(time.Unix(1700000000, 5)),
	Within: durationpb.New(1500 * time.Millisecond), Express: true, Serial: 1 << 63,
}

func TestKeysFromEveryKindOfField(t *testing.T) {
	empty := &testpb.ReserveRequest{}
	for _, c := range []struct {
		template string
		request  *testpb.ReserveRequest
		want     string // "" means InvalidArgument
		field    string // of the violation
	}{
		{"o:#{req.order_id}", full, "o:42", ""},
		{"o:#{req.orderId}", full, "o:42", ""},
		{"o:#{req.OrderId}", full, "o:42", ""},
		{"o:#{req.ORDER_ID}", full, "o:42", ""},
		{"o:#<req.order_id>", full, "o:42", ""},
		{"o:#{req.order_id}", empty, "", "order_id"},
		{"o:#{req.order_id}", &testpb.ReserveRequest{OrderId: " "}, "", "order_id"},
		{`o:#{req.order_id ?? "none"}`, empty, "o:none", ""},
		{"n:#{req.number}", full, "n:-9007199254740993", ""},
		{"n:#{req.number}", empty, "n:0", ""},
		{"c:#{req.coupon}", full, "c:ten", ""},
		{"c:#{req.coupon}", empty, "", "coupon"},
		{"l:#{req.level}", full, "l:0", ""},
		{"l:#{req.level}", empty, "", "level"},
		{"s:#{req.status}", full, "s:STATUS_PAID", ""},
		{"s:#{req.status}", &testpb.ReserveRequest{Status: 9}, "s:9", ""},
		{`s:#{req.status == "STATUS_PAID" ? "p" : "u"}`, full, "s:p", ""},
		{"u:#{req.customer.id}", full, "u:18446744073709551615", ""},
		{"u:#{req.customer.referred_by.id}", full, "u:2", ""},
		{"u:#{req.customer.referredBy.referred_by.id}", full, "", "customer.referredBy.referred_by"},
		{"u:#{req.customer.id}", empty, "", "customer"},
		{"i:#{map(req.items, .sku)}", full, "i:gin i:rum", ""},
		{"i:#{map(filter(req.items, .quantity > 1), .sku)}", full, "i:rum", ""},
		{"i:#{map(req.items, .sku)}", empty, "", ""},
		{"i:#{req.items[1].sku}", full, "i:gin", ""},
		{"i:#{req.items[7].sku}", full, "", "items[7]"},
		{"t:#{req.tags}", full, "t:a t:b", ""},
		{"t:#{req.tags}", empty, "", "tags"},
		{"h:#{req.history}", full, "h:7 h:STATUS_PAID", ""},
		{"m:#{req.labels.zone}", full, "m:eu", ""},
		{`m:#{req.labels["dotted.name"]}`, full, "m:x", ""},
		{"m:#{req.labels.zone}", empty, "", "labels.zone"},
		{"m:#{req.by_name.one.sku}", full, "m:ale", ""},
		{"m:#{req.by_number[3]}", full, "m:three", ""},
		{"m:#{req.by_number[4]}", full, "", "by_number[…]"},
		{"w:#{req.warehouse}", full, "w:w1", ""},
		{"w:#{req.single.sku}", full, "", "single"},
		{"w:#{req.warehouse ?? req.single.sku}", &testpb.ReserveRequest{Target: &testpb.ReserveRequest_Single{
			Single: &testpb.Item{Sku: "ale"}}}, "w:ale", ""},
		{"v:#{req.wrapped}", full, "v:in", ""},
		{"v:#{req.wrapped}", empty, "", "wrapped"},
		{"v:#{req.wrapped_number}", full, "v:0", ""},
		{"v:#{req.wrapped_number}", empty, "", "wrapped_number"},
		{"a/#{req.at}", full, "a/2023-11-14T22%3A13%3A20.000000005Z", ""},
		{"a:#{req.at.Unix()}", full, "a:1700000000", ""},
		{"a:#{int(req.within)}", full, "a:1500000000", ""},
		{"x:#{req.express}", full, "x:true", ""},
		{"x:#{req.serialNo}", full, "x:9223372036854775808", ""},
		{"x:#{req.twin}", &testpb.ReserveRequest{Twin: "a", Other: "b"}, "x:a", ""},
		{"x:#{req.tWin}", &testpb.ReserveRequest{Twin: "a", Other: "b"}, "x:b", ""},
		{`d:#{md["x-tenant"]}`, full, "d:acme", ""},
		{`d:#{md["X-Tenant"]}`, full, "d:acme", ""},
		{`d:#{md["twice"]}`, full, "", `md.twice`},
		{`d:#{md["same"]}`, full, "d:s", ""},
		{`d:#{md.nobody}`, full, "", "md.nobody"},
		{"#{fn}", full, "%2Flatchkey.test.v1.Shop%2FReserve", ""},
		{"", full, "%2Flatchkey.test.v1.Shop%2FReserve", ""},
		{"f/#{method}", full, "f/%2Flatchkey.test.v1.Shop%2FReserve", ""},
	} {
		s := open(t, grpcmw.Method(reserve, c.template))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "acme", "twice", "a", "twice", "b", "same", "s", "same", "s")
		resp, err := s.client.Reserve(ctx, c.request)
		if c.want != "" {
			if got := strings.Join(resp.GetKeys(), " "); err != nil || strings.ReplaceAll(got, "%2F", "/") != strings.ReplaceAll(c.want, "%2F", "/") {
				t.Errorf("%s: %q, %v; want %q", c.template, got, err, c.want)
			}
			continue
		}
		bad, _ := detail[*errdetails.BadRequest](err)
		if status.Code(err) != codes.InvalidArgument || reason(err) != "LOCK_KEY_MISSING" || len(bad.GetFieldViolations()) != 1 {
			t.Errorf("%s: %v %v, want InvalidArgument with a violation", c.template, resp, err)
			continue
		}
		if v := bad.GetFieldViolations()[0]; c.field != "" && v.GetField() != c.field {
			t.Errorf("%s: field %q (%s), want %q", c.template, v.GetField(), v.GetDescription(), c.field)
		}
	}
}

func TestRulesThatDoNotFitFailWhenTheServerIsBuilt(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	for _, c := range []struct {
		rule grpcmw.Option
		want string
	}{
		{grpcmw.Method(reserve, "o:#{req.order}"), "latchkey.test.v1.ReserveRequest has no field order"},
		{grpcmw.Method(reserve, "o:#{req.order_di}"), "did you mean order_id?"},
		{grpcmw.Method(reserve, "o:#{req.customer.nme}"), "latchkey.test.v1.Customer has no field nme"},
		{grpcmw.Method(reserve, "o:#{map(req.items, .skuu)}"), "did you mean sku?"},
		{grpcmw.Method(reserve, "o:#{req}"), "latchkey.test.v1.ReserveRequest has no text of its own"},
		{grpcmw.Method(reserve, "o:#{req.items}"), "map(req.items, .sku)"},
		{grpcmw.Method(reserve, "o:#{req.price}"), "float64 has no exact text"},
		{grpcmw.Method(reserve, "o:#{req.blob}"), "no exact text"},
		{grpcmw.Method(reserve, "o:#{req.target}"), "target is a oneof; name one of its fields, such as warehouse"},
		{grpcmw.Method(reserve, "o:#{req.TWIN}"), "can mean twin or other"},
		{grpcmw.Method(reserve, "o:#{request.order_id}"), "a call has no request"},
		{grpcmw.Method(reserve, "o:{order_id}"), "#{"},
		{grpcmw.Method(reserve, "o", latchkey.Wait(-1)), "Wait(-1ns)"},
		{grpcmw.Method("/latchkey.test.v1.Shop/Reserv", "o"), "nothing of that name is registered"},
		{grpcmw.Service("latchkey.test.v1.Shopp", "o"), "nothing of that name is registered"},
		{grpcmw.Service("latchkey.test.v1.Shop", "o:#{req.nope}"), "/latchkey.test.v1.Shop/Cancel"},
		{grpcmw.BusyCode(codes.OK), "can't be OK"},
		{nil, "option 1 is nil"},
	} {
		_, err := grpcmw.Rules(locks, c.rule)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %q", err, c.want)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic, want %q", c.want)
				}
			}()
			grpcmw.ServerOptions(locks, c.rule)
		}()
	}
	if _, err := grpcmw.Rules(nil); err == nil {
		t.Error("nil locks are taken")
	}
	twice := []grpcmw.Option{
		grpcmw.Method(reserve, "a"), grpcmw.Method(reserve, "b"), grpcmw.Default("a"), grpcmw.Default("b"),
		grpcmw.Service("latchkey.test.v1.Shop", "a"), grpcmw.Service("latchkey.test.v1.Shop", "b"),
	}
	if _, err := grpcmw.Rules(locks, twice...); err == nil || strings.Count(err.Error(), "there are two") != 3 {
		t.Errorf("rules given twice: %v", err)
	}
}

func TestTheMostSpecificRuleCounts(t *testing.T) {
	s := open(t, grpcmw.Default("default"), grpcmw.Service("latchkey.test.v1.Shop", "service"), grpcmw.FromAnnotations(),
		grpcmw.Method(reserve, "method"), grpcmw.Unlocked(testpb.Shop_Peek_FullMethodName))
	for name, c := range map[string]struct {
		call func(context.Context, *testpb.ReserveRequest, ...grpc.CallOption) (*testpb.ReserveResponse, error)
		want string
	}{
		"method": {s.client.Reserve, "method"}, "service": {s.client.Cancel, "service"}, "unlocked": {s.client.Peek, ""},
		"annotation": {s.annotated.Reserve, "order:1"}, "default": {s.annotated.Plain, "default"},
	} {
		resp, err := c.call(t.Context(), &testpb.ReserveRequest{OrderId: "1"})
		if got := strings.Join(resp.GetKeys(), " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	s = open(t)
	if resp, err := s.client.Reserve(t.Context(), full); err != nil || len(resp.GetKeys()) != 0 {
		t.Errorf("no rule: %v, %v", resp, err)
	}
}

func TestCheckComparesTheRulesWithTheServer(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	rules, err := grpcmw.Rules(locks, grpcmw.Default("o:#{req.nope}"), grpcmw.Method(reserve, "o"),
		grpcmw.Method(testpb.Annotated_Plain_FullMethodName, "o"), grpcmw.Service("latchkey.test.v1.Annotated", "o"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(rules.ServerOptions()...)
	defer server.Stop()
	testpb.RegisterShopServer(server, &shop{})
	err = rules.Check(server)
	for _, want := range []string{
		"/latchkey.test.v1.Shop/Cancel: latchkey: key template: latchkey.test.v1.ReserveRequest has no field nope",
		`Method("/latchkey.test.v1.Annotated/Plain"): the server does not serve it`,
		`Service("latchkey.test.v1.Annotated"): the server does not serve it`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "Reserve: ") {
		t.Errorf("%v: Reserve has a rule that fits", err)
	}
}

func TestADefaultThatDoesNotFitKeepsTheMethodFromRunning(t *testing.T) {
	s := open(t, grpcmw.Default("o:#{req.nope}"))
	s.unary = func(context.Context, *testpb.ReserveRequest) (*testpb.ReserveResponse, error) {
		t.Error("it ran")
		return nil, nil
	}
	_, err := s.client.Reserve(t.Context(), full)
	if status.Code(err) != codes.Internal || reason(err) != "LOCK_MISCONFIGURED" || strings.Contains(err.Error(), "nope") {
		t.Errorf("%v", err)
	}
}

func TestNilRequestsHaveNoKey(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	unary := grpcmw.UnaryServerInterceptor(locks, grpcmw.Method(reserve, "o:#{req.order_id}"))
	info := &grpc.UnaryServerInfo{FullMethod: reserve}
	for name, req := range map[string]any{
		"nil": nil, "typed nil": (*testpb.ReserveRequest)(nil), "no message": "text", "another message": &testpb.Item{Sku: "x"},
	} {
		_, err := unary(t.Context(), req, info, func(context.Context, any) (any, error) {
			t.Errorf("%s: it ran", name)
			return nil, nil
		})
		bad, _ := detail[*errdetails.BadRequest](err)
		if status.Code(err) != codes.InvalidArgument || len(bad.GetFieldViolations()) != 1 {
			t.Errorf("%s: %v, %v, want InvalidArgument with a violation", name, err, bad)
		}
	}
}
