package latchkey

import (
	"context"
	"reflect"
	"strings"
	"testing"
)

type fnService struct{ name string }

func (s *fnService) Pay(context.Context, int) (string, error) { return s.name, nil }
func (s fnService) Refund(context.Context, int) error         { return nil }
func (s *fnService) func1()                                   {}

type fnPayer interface {
	Pay(ctx context.Context, n int) (string, error)
}

func fnPlain(context.Context) error { return nil }

func fnGeneric[T any](context.Context, T) error { return nil }

var fnVariable = func() {}

func TestNamesOfFunctions(t *testing.T) {
	s := &fnService{"s"}
	var payer fnPayer = s
	var nothing func()
	const pkg = "github.com/latchkey-go/latchkey."
	for _, tt := range []struct {
		what       string
		fn         any
		name, want string
	}{
		{"function", fnPlain, pkg + "fnPlain", ""},
		{"function of another package", strings.ToUpper, "strings.ToUpper", ""},
		{"method of a pointer", s.Pay, pkg + "(*fnService).Pay", ""},
		{"method expression", (*fnService).Pay, pkg + "(*fnService).Pay", ""},
		{"method of a value", s.Refund, "", "method of a value or of an interface"},
		{"method of an interface", payer.Pay, "", "method of a value or of an interface"},
		{"closure", func() {}, "", "closure"},
		{"closure in a closure", func() func() { return func() {} }(), "", "closure"},
		{"function literal in a variable", fnVariable, "", "closure"},
		{"method with the name of a closure", s.func1, "", "closure"},
		{"generic function", fnGeneric[int], "", "already wrapped"}, // in this package; elsewhere "generic"
		{"function made by reflection", reflect.MakeFunc(reflect.TypeFor[func()](), nil).Interface(), "", "reflection"},
		{"method found by reflection", reflect.ValueOf(s).MethodByName("Pay").Interface(), "", "reflection"},
		{"nil function", nothing, "", "nil function"},
		{"nil", nil, "", "no function"},
		{"no function", 42, "", "no function"},
	} {
		name, reason := funcName(tt.fn)
		if name != tt.name || !strings.Contains(reason, tt.want) || (name == "") != (reason != "") {
			t.Errorf("%s: got %q, %q", tt.what, name, reason)
		}
		if reason != "" && !strings.Contains(reason, `Name("…")`) {
			t.Errorf("%s: %q does not name the fix", tt.what, reason)
		}
	}
}

func TestRuntimeNamesAreRead(t *testing.T) {
	for name, want := range map[string]string{
		"gopkg.in/yaml%2ev3.Unmarshal":                    "",
		"main.main":                                       "",
		"example.com/a.b/c.(*T).M-fm":                     "",
		"example.com/shop.Map[...]":                       "instance of a generic function",
		"example.com/shop.(*List[...]).Add-fm":            "instance of a generic function",
		"example.com/shop.Map[go.shape.int].func1":        "closure",
		"example.com/shop.Run.func1.2":                    "closure",
		"example.com/shop.Run.gowrap1":                    "closure",
		"example.com/shop.Run-range1":                     "closure",
		"example.com/shop.glob..func1":                    "closure",
		"example.com/shop.(*T).M.func1":                   "closure",
		"example.com/shop.T.M-fm":                         "method of a value or of an interface, which look the same",
		"github.com/latchkey-go/latchkey.Func[...].func1": "already wrapped function",
	} {
		if got := unnamed(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got, want := unescapePath("gopkg.in/yaml%2ev3.Unmarshal"), "gopkg.in/yaml.v3.Unmarshal"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEmptyTemplateIsTheFunctionsName(t *testing.T) {
	for template, want := range map[string]string{
		"":                       "shop.(*Orders).Pay",
		"#{fn}":                  "shop.(*Orders).Pay",
		"#<fn>":                  "shop.(*Orders).Pay",
		"#{fn}:#{id}":            "shop.(*Orders).Pay:7",
		"x.#{fn}:#{id}":          "x.shop%2E(*Orders)%2EPay:7", // a point is a separator here
		"#{lower(fn)}/#{id + 1}": "shop.(*orders).pay/8",
	} {
		k, err := compileKey(template, keyEnv{vars: []KeyVar{Var[int]("id")}, fnName: "shop.(*Orders).Pay"})
		if err != nil {
			t.Errorf("%q: %v", template, err)
			continue
		}
		id := 7
		if got, _, err := renderArg(t.Context(), k, &id); got != want || err != nil || k.String() != template {
			t.Errorf("%q: got %q, %v, want %q", template, got, err, want)
		}
	}
	_, err := compileKey("", keyEnv{fnErr: `closure: give it a name with Name("…")`})
	if err == nil || !strings.Contains(err.Error(), `give it a name with Name("…")`) {
		t.Errorf("got %v", err)
	}
}
