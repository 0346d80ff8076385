package latchkey

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files in testdata/golden")

// golden compares text with testdata/golden/<name>.txt.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if text != string(want) {
		t.Errorf("%s: the messages have changed (go test -update accepts them)\n--- got\n%s--- want\n%s", file, text, want)
	}
}

// Every way in which a template can be wrong, with the message it is answered by: what a user sees at start-up.
var wrongTemplates = []struct{ name, template string }{
	{"empty template without a function", ""},
	{"braces alone", "order:{id}"},
	{"dollar", "order:${param.id}"},
	{"double braces", "order:{{ .ID }}"},
	{"hash inside braces", "order:{#id}"},
	{"hash alone", "order:#id"},
	{"angle brackets alone", "order:<id>"},
	{"unclosed", "order:#{p.id"},
	{"mixed closers", "order:#{p.id>"},
	{"mixed closers of a path", "order:#<p.id}"},
	{"empty placeholder", "order:#{}"},
	{"line break at the end", "order:#{p.id}\n"},
	{"tab in the text", "order\t1:#{p.id}"},
	{"broken UTF-8", "order:\xff"},
	{"too long", strings.Repeat("a", 5000)},
	{"expression in a path", "order:#<p.id + 1>"},
	{"syntax", "order:#{p.id +}"},
	{"syntax behind letters that are not ASCII", "größe:#{\"ä\" ++ p.id}"},
	{"unknown name", "order:#{params.id}"},
	{"unknown member", "order:#{p.idd}"},
	{"unknown member, swapped letters", "order:#{p.nmae}"},
	{"unknown member in the second line", "order:#{\n  p.name +\n  p.titel\n}"},
	{"unknown member of an element", "order:#{map(p.items, .skuu)}"},
	{"unknown member behind let", "order:#{let i = p.items[0]; i.skuu}"},
	{"unknown member under ??", `order:#{p.titel ?? "none"}`},
	{"unknown member of a list", "order:#{p.items.sku}"},
	{"two members", "order:#{p.userid}"},
	{"unexported member", "order:#{p.Secret}"},
	{"method that takes arguments", "order:#{p.prefix}"},
	{"method that returns nothing", "order:#{p.items[0].nothing}"},
	{"method with other arguments", "order:#{p.Prefix(1, 2)}"},
	{"method with an argument of another type", `order:#{p.Prefix("a")}`},
	{"unknown method", "order:#{p.Suffix(1)}"},
	{"field called", "order:#{p.Name()}"},
	{"underscore for another word", "order:#{p.u_ser_id}"},
	{"map with other keys", "order:#{p.byNum.five}"},
	{"map indexed by another type", "order:#{p.stock[1.5]}"},
	{"struct indexed", "order:#{p[p.name]}"},
	{"member of text", "order:#{p.name.first}"},
	{"unknown function", "order:#{uper(p.name)}"},
	{"float", "order:#{p.float}"},
	{"quotient", "order:#{p.id / 2}"},
	{"struct", "order:#{p.proto}"},
	{"map", "order:#{p.stock}"},
	{"function", "order:#{p.func}"},
	{"bytes", "order:#{p.raw}"},
	{"Stringer", "order:#{p.print}"},
	{"Stringer in an interface", "order:#{p.printer}"},
	{"untyped", "order:#{p.any}"},
	{"untyped entry", "order:#{p.meta.s}"},
	{"untyped operand", "order:#{p.meta.n + 1}"},
	{"string of a float", "order:#{string(p.float)}"},
	{"string of a list", "order:#{string(p.ids)}"},
	{"int of a list", "order:#{int(p.ids)}"},
	{"arithmetic with uint64", "order:#{p.max + 1}"},
	{"sum of uint64", "order:#{sum([p.max])}"},
	{"enum as a number", "order:#{p.proto.state == 1}"},
	{"text and number", "order:#{p.name + p.id}"},
	{"text compared with a number", `order:#{p.name == 1 ? "a" : "b"}`},
	{"wrong type under ??", "order:#{p.name ?? p.float}"},
	{"?? on what is never nil", `order:#{upper(p.name) ?? "none"}`},
	{"?? mixed with +", `order:#{p.name ?? "none" + "x"}`},
	{"list of structs", "order:#{p.items}"},
	{"list of lists", "order:#{p.matrix}"},
	{"list of floats", "order:#{map(p.items, .price)}"},
	{"list or value", `order:#{p.names ?? p.name}`},
	{"two lists", "order:#{p.ids}:#{p.names}"},
	{"no list", "order:#{map(p.name, #)}"},
	{"neighbours", "order:#{p.id}#{p.name}"},
	{"neighbours with a letter between", "order:#{p.id}x#{p.name}"},
	{"neighbours with an escaped character between", "order:#{p.id}%#{p.name}"},
	{"neighbours with a letter that is not ASCII between", "order:#{p.id}→#{p.name}"},
	{"clock", "order:#{now()}"},
	{"zone", `order:#{date("2026-01-01").Year()}`},
	{"order of a map", "order:#{keys(p.stock)}"},
	{"JSON", "order:#{toJSON(p.proto)}"},
	{"time as its own text", "order:#{p.created.String()}"},
	{"context without extractors", "order:#{ctx.tenant}"},
	{"context as a value", "order:#{ctx}"},
	{"function name", "order:#{fn}"},
	{"environment of expr", "order:#{$env.p.id}"},
	{"let over a variable", "order:#{let p = 1; p}"},
	{"hash outside a predicate", "order:#{#.id}"},
	{"always blank", `order:#{" "}`},
	{"always nil", "order:#{nil}"},
	{"nil has no order", "order:#{p.title < nil}"},
}

func TestMessagesForWrongTemplates(t *testing.T) {
	var b strings.Builder
	for _, tt := range wrongTemplates {
		k, err := CompileKey(tt.template, Var[*keyParam]("p"))
		var e *KeyError
		if !errors.As(err, &e) || !errors.Is(err, ErrKey) {
			t.Errorf("%s: %q: got %v, %v, want ErrKey", tt.name, tt.template, k, err)
			continue
		}
		fmt.Fprintf(&b, "== %s\n%v\n\n", tt.name, err)
	}
	golden(t, "templates", b.String())
}

func TestMessagesForWrongConditions(t *testing.T) {
	var b strings.Builder
	for _, expr := range []string{"p.id", "p.idd > 1", "p.name", "p.any", "p.max + 1 > 2", "p.paid ?? p.name", "", "p.id >"} {
		_, err := compileCond(expr, keyEnv{vars: []KeyVar{Var[*keyParam]("p")}})
		if !errors.Is(err, ErrKey) {
			t.Errorf("%q: got %v, want ErrKey", expr, err)
		}
		fmt.Fprintf(&b, "== %s\n%v\n\n", expr, err)
	}
	golden(t, "conditions", b.String())
}

func TestMessagesForWrongVariables(t *testing.T) {
	var b strings.Builder
	for _, opts := range [][]KeyOption{
		{Var[int]("")}, {Var[int]("a b")}, {Var[int]("in")}, {Var[int]("fn")}, {Var[int]("ctx")},
		{Var[int]("a"), Var[int]("a")}, {KeyVar{}}, {newCtxVar("1x", func(context.Context) int { return 1 })},
	} {
		_, err := CompileKey("x", opts...)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%v: got %v, want ErrKey", opts, err)
		}
		fmt.Fprintf(&b, "%v\n", err)
	}
	golden(t, "variables", b.String())
}
