package latchkey

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The types below have a member of every kind that a key can be made of, and some that it can't.
type (
	keyStatus string
	keyCount  uint64
	keyEnum   int32
	keyLevel  int // has a text of its own
	keyPrint  int // prints itself, which is not enough
	keyID     [4]byte

	keyItem struct {
		SKU   string `json:"sku"`
		Qty   int    `db:"quantity"`
		Price float64
		Note  *string
	}

	keyBase struct {
		Tenant  string `json:"tenant_id"`
		Version int
	}

	keyProto struct {
		OrderId string `protobuf:"bytes,1,opt,name=order_id,json=orderId,proto3" json:"order_id,omitempty"`
		State   keyEnum
	}

	keyParam struct {
		keyBase
		*keyOwner
		States  []keyStatus
		ID      int64 `json:"id"`
		Name    string
		Title   *string
		Deep    ***string
		Paid    bool
		Max     uint64
		Small   int8
		Status  keyStatus
		Count   keyCount
		Level   keyLevel
		Print   keyPrint
		Key     keyID
		Addr    netip.Addr
		Created time.Time
		Expires *time.Time
		TTL     time.Duration
		Proto   *keyProto
		Items   []keyItem
		Links   []*keyItem
		IDs     []int64
		Names   []string
		Matrix  [][]string
		Pair    [2]string
		Stock   map[string]int
		ByNum   map[int32]string
		Labels  map[keyStatus]*keyItem
		Meta    map[string]any
		Any     any
		Printer interface{ String() string }
		Owner   interface{ ID() (string, error) }
		Raw     []byte
		Float   float64
		Func    func()
		Params  keyParams
		Self    *keyParam

		UserID, UserId string // two names that differ by case alone
		secret         string
	}

	keyOwner  struct{ Login string }
	keyParams map[string]string
)

func (e keyEnum) String() string     { return [...]string{"NEW", "PAID"}[e] }
func (keyEnum) Number() int32        { return 0 }
func (keyEnum) Descriptor() struct{} { return struct{}{} }
func (l keyLevel) MarshalText() ([]byte, error) {
	return []byte("level-" + strings.Repeat("i", int(l))), nil
}
func (keyPrint) String() string                       { return "printed" }
func (id keyID) MarshalText() ([]byte, error)         { return id[:], nil }
func (p *keyParam) Total() (int, error)               { return len(p.Items), nil }
func (p keyParam) GetShard() string                   { return "s" + p.secret }
func (p keyParam) Prefix(n int8) string               { return p.Name[:n] }
func (p keyParam) Boom() string                       { panic("secret " + p.Name) }
func (p keyParam) Fail() (string, error)              { return "", errTest }
func (keyItem) Nothing()                              {}
func (p keyParams) KeyMember(n string) (string, bool) { v, ok := p[strings.ToLower(n)]; return v, ok }

var errTest = errors.New("secret reason")

type keyUser string

func (u keyUser) ID() (string, error) { return string(u), nil }

func sampleParam() *keyParam {
	title, deep := "Dr", "down"
	ptr := &deep
	pptr := &ptr
	expires := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))
	return &keyParam{
		keyBase: keyBase{"acme", 3}, keyOwner: &keyOwner{"root"},
		ID: 42, Name: "Ann", Title: &title, Deep: &pptr, Paid: true, Max: math.MaxUint64, Small: -8,
		Status: "open", Count: 7, Level: 2, Print: 1, Key: keyID{'a', 'b', ':', 'd'},
		Addr: netip.MustParseAddr("10.0.0.1"), Created: expires.UTC(), Expires: &expires, TTL: time.Second,
		Proto: &keyProto{"o-1", 1},
		Items: []keyItem{{SKU: "b", Qty: 1}, {SKU: "a", Qty: 2}, {SKU: "b", Qty: 3}},
		Links: []*keyItem{{SKU: "l"}}, IDs: []int64{3, 1, 2}, Names: []string{"x", "y"},
		Matrix: [][]string{{"m"}}, Pair: [2]string{"p", "q"},
		Stock: map[string]int{"a": 0}, ByNum: map[int32]string{5: "five"}, Labels: map[keyStatus]*keyItem{"k": {SKU: "lab"}},
		Meta: map[string]any{"s": "text", "n": float64(9), "m": map[string]any{"x": "deep"}, "nil": nil, "f": 1.5},
		Any:  keyItem{SKU: "dyn"}, Printer: keyPrint(1), Owner: keyUser("u1"), Raw: []byte("raw"), Float: 2.6,
		States: []keyStatus{"new", "open"},
		Params: keyParams{"sku": "P1"}, secret: "3",
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct{ name, template, want string }{
		// Members
		{"exact Go name", "#{p.ID}", "42"},
		{"json name", "#{p.id}", "42"},
		{"other case", "#{p.nAME}", "Ann"},
		{"db name", "#{p.items[0].quantity}", "1"},
		{"protobuf name", "#{p.proto.order_id}", "o-1"},
		{"protobuf JSON name", "#{p.proto.orderId}", "o-1"},
		{"Go name of a generated field", "#{p.Proto.OrderId}", "o-1"},
		{"exact name before other case", "#{p.UserID == '' ? 'x' : p.UserId}", "x"},
		{"embedded field", "#{p.tenant_id}", "acme"},
		{"embedded pointer", "#{p.login}", "root"},
		{"pointer", "#{p.title}", "Dr"},
		{"pointer to pointer to pointer", "#{p.deep}", "down"},
		{"method", "#{p.total}", "3"},
		{"method, called", "#{p.Total()}", "3"},
		{"getter", "#{p.shard}", "s3"},
		{"getter, called", "#{p.GetShard()}", "s3"},
		{"method with an argument", "#{p.Prefix(2)}", "An"},
		{"method of an interface", "#{p.owner.id}", "u1"},
		{"map entry", "#{p.stock.a}", "0"},
		{"map entry in brackets", `#{p.stock["a"]}`, "0"},
		{"map with named keys", "#{p.labels.k.sku}", "lab"},
		{"map with integer keys", "#{p.byNum[5]}", "five"},
		{"map with a key from the call", "#{p.byNum[p.items[1].qty + 3]}", "five"},
		{"untyped map", "#{string(p.meta.s)}", "text"},
		{"untyped map, nested", "#{string(p.meta.m.x)}", "deep"},
		{"number of a JSON document", "#{string(p.meta.n)}", "9"},
		{"member of an untyped value", "#{string(p.any.sku)}", "dyn"},
		{"own lookup", "#{p.params.SKU}", "P1"},
		{"own lookup in brackets", `#{p.params["sku"]}`, "P1"},
		{"own lookup with a name from the call", `#{p.params[upper("sku")]}`, "P1"},
		{"element", "#{p.items[1].sku}", "a"},
		{"element from the end", "#{p.items[-1].qty}", "3"},
		{"element of an array", "#{p.pair[1]}", "q"},
		{"both placeholder forms", "#<p.id>:#{p.id}", "42:42"},
		{"path with constant keys", `#<p.stock["a"]>:#<p.items[0].sku>`, "0:b"},
		// Values
		{"bool", "#{p.paid}:#{!p.paid}", "true:false"},
		{"largest uint64", "#{p.max}", "18446744073709551615"},
		{"negative number", "#{p.small}", "-8"},
		{"negative number next to a dash", "x-#{p.small}", "x-%2D8"},
		{"named string", "#{p.status}", "open"},
		{"named integer", "#{p.count}", "7"},
		{"TextMarshaler", "#{p.level}", "level-ii"},
		{"TextMarshaler that is an array", "#{p.key}", "ab%3Ad"},
		{"TextMarshaler that is a struct", "#{p.addr}", "10.0.0.1"},
		{"time in UTC", "#{p.expires}", "2026-01-02T02%3A04%3A05.000000006Z"},
		{"one instant, one text", "#{p.created == p.expires}", "true"},
		{"duration as a number", "#{int(p.ttl)}", "1000000000"},
		{"enum by name", "#{p.proto.state}", "PAID"},
		{"bytes as text", "#{string(p.raw)}", "raw"},
		{"number of a Stringer", "#{int(p.print)}", "1"},
		{"Stringer, asked for", "#{p.print.String()}", "printed"},
		{"float made whole", "#{int(p.float)}", "2"},
		// Expressions
		{"concatenation", `#{p.name + "-" + string(p.id)}`, "Ann-42"},
		{"named string in a comparison", `#{p.status == "open" ? 1 : 0}`, "1"},
		{"large number in a comparison", `#{p.max > 5 ? 1 : 0}`, "1"},
		{"enum in a comparison", `#{string(p.proto.state) == "PAID"}`, "true"},
		{"let", "#{let i = p.items[0]; i.sku + string(i.quantity)}", "b1"},
		{"let with a condition", `#{let s = p.self; s == nil ? "none" : "some"}`, "none"},
		{"find", `#{find(p.items, .qty > 1).sku}`, "a"},
		{"first of a filter", `#{first(filter(p.items, .qty > 1)).sku}`, "a"},
		{"last of a sort", `#{last(sortBy(p.items, .qty)).qty}`, "3"},
		{"predicate inside a predicate", `#{len(filter(p.items, any(p.names, # == "x") and .qty > 1))}`, "2"},
		{"reduce", `#{reduce(p.items, #acc + .qty, 0)}`, "6"},
		{"sum", `#{sum(p.items, .qty)}:#{sum(p.ids)}`, "6:6"},
		{"smallest", `#{min(p.ids)}`, "1"},
		{"named strings in a list", `#{"open" in p.states ? join(p.states, "+") : "no"}`, "new+open"},
		{"pipe", `#{p.name | lower() | trim()}`, "ann"},
		{"slice", `#{p.name[0:2]}`, "An"},
		{"time method", `#{p.expires.UTC().Format("2006")}`, "2026"},
		{"if", `#{if p.paid { "y" } else { "n" }}`, "y"},
		{"constant", `a:#{"x:y"}:#{1}`, "a:x%3Ay:1"},
		// ??
		{"?? on a value", `#{p.name ?? "none"}`, "Ann"},
		{"?? on a nil path", `#{p.self.self.name ?? "none"}`, "none"},
		{"?? on a missing entry", `#{p.stock.b ?? "none"}`, "none"},
		{"?? on an entry that is zero", `#{p.stock.a ?? "none"}`, "0"},
		{"?? on blank text", `#{p.userID ?? "none"}`, ""},
		{"?? with other types", `#{p.self.name ?? p.id}`, "42"},
		{"?? in a row", `#{p.self.name ?? p.items[9].sku ?? "z"}`, "z"},
		{"?? on find", `#{find(p.items, .qty > 9).sku ?? "none"}`, "none"},
		{"?? on first", `#{first(p.self.items).sku ?? "none"}`, "none"},
		{"?? on a conversion", `#{string(p.meta.zz) ?? "none"}`, "none"},
		{"?? on an untyped nil", `#{string(p.meta["nil"] ?? "none")}`, "none"},
		{"?? on a method's receiver", `#{p.self.Total() ?? 0}`, "0"},
		{"?? in a predicate", `#{join(map(p.items, .note ?? "-"), "")}`, "---"},
		{"?? with parentheses", `#{(p.self.proto ?? p.proto).order_id}`, "o-1"},
		{"question mark", `#{p.proto?.order_id}`, "o-1"},
		{"question mark and ??", `#{p.self?.name ?? "none"}`, "none"},
		// Literals
		{"no placeholder", "nightly-report", "nightly-report"},
		{"escaped braces", "##{id}:##<x>:#{p.id}", "#%7Bid%7D:#<x>:42"},
		{"hash in a segment", "order#123", "order#123"},
		{"percent and tilde", "100%~:#{p.id}", "100%25%7E:42"},
		{"letters of any script", "größe:#{p.id}", "größe:42"},
		{"lines inside a placeholder", "a:#{\n  p.id // the id }\n}", "a:42"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := CompileKey(tt.template, Var[*keyParam]("p"))
			if tt.want == "" {
				if !errors.Is(err, ErrKey) {
					t.Fatalf("got %v, want an ambiguity", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.Render(t.Context(), sampleParam()); got != tt.want || err != nil {
				t.Fatalf("got %q, %v, want %q", got, err, tt.want)
			}
			// The same by value, through a copy, and twice: nothing is kept from call to call.
			v, err := CompileKey(tt.template, Var[keyParam]("p"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				p := *sampleParam()
				if got, _, err := renderArg(t.Context(), v, &p); got != tt.want || err != nil {
					t.Fatalf("by value: got %q, %v, want %q", got, err, tt.want)
				}
			}
			if k.String() != tt.template {
				t.Errorf("String: got %q", k.String())
			}
		})
	}
}

func TestNumbersAndTheirTextAreOneKey(t *testing.T) {
	number := mustCompile(t, "order-#{id}", Var[int]("id"))
	text := mustCompile(t, "order-#{id}", Var[string]("id"))
	for n, s := range map[int]string{1: "1", 0: "0", -5: "-5", math.MinInt64: "-9223372036854775808"} {
		a, err := number.Render(t.Context(), n)
		b, err2 := text.Render(t.Context(), s)
		if a != b || err != nil || err2 != nil {
			t.Errorf("%d: %q and %q, %v, %v", n, a, b, err, err2)
		}
	}
}

func TestListsMakeOneKeyForEachElement(t *testing.T) {
	for _, tt := range []struct{ name, template, want string }{
		{"integers", "n:#{p.ids}", "n:1 n:2 n:3"},
		{"members", "sku:#{map(p.items, .sku)}:x", "sku:a:x sku:b:x"},
		{"members of pointers", "#{map(p.links, .sku)}", "l"},
		{"filtered", "#{map(filter(p.items, .qty > 1), .sku)}", "a b"},
		{"written out", "#{[p.name, p.id]}", "42 Ann"},
		{"concatenated", `#{concat(p.names, map(p.items, .sku), ["z"])}`, "a b x y z"},
		{"unique and reversed", "#{reverse(uniq(p.names))}", "x y"},
		{"flattened", "#{flatten(p.matrix)}", "m"},
		{"array", "#{p.pair}", "p q"},
		{"range", "#{1..3}", "1 2 3"},
		{"split", `#{split("a,b", ",")}`, "a b"},
		{"with a single value", "#{p.id}:#{p.names}", "42:x 42:y"},
		{"??", `#{p.self.names ?? ["none"]}`, "none"},
		{"single", "#{p.id}", "42"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := mustCompile(t, tt.template, Var[*keyParam]("p"))
			keys, err := k.RenderAll(t.Context(), sampleParam())
			if got := strings.Join(keys, " "); got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if tt.name != "single" != k.IsList() {
				t.Errorf("IsList is %v", k.IsList())
			}
		})
	}
}
