package latchkey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Values that make no key. None of them may be part of the message.
func TestCallsWithoutAKey(t *testing.T) {
	type marshal struct{ M keyText }
	named := func(s string) *keyParam { p := sampleParam(); p.Name = s; return p }
	var nobody *keyParam
	for _, tt := range []struct {
		name, template string
		arg            *keyParam
		want           string
	}{
		{"nil argument", "#{p.id}", nobody, "p is nil"},
		{"nil on the path", "#{p.self.name}", sampleParam(), "p.self is nil"},
		{"nil at the end", "#{p.self.title}", &keyParam{Self: &keyParam{}}, "p.self.title is nil"},
		{"nil in the middle of pointers", "#{p.deep}", &keyParam{}, "p.deep is nil"},
		{"nil embedded struct", "#{p.login}", &keyParam{}, "p.login is nil"},
		{"nil through the VM", "#{string(p.self.id)}", sampleParam(), "p.self is nil"},
		{"nil in text", `#{"x" + p.self.name}`, sampleParam(), "p.self is nil"},
		{"nil interface", "#{p.owner.id}", &keyParam{}, "p.owner is nil"},
		{"nil in an untyped map", `#{string(p.meta["nil"])}`, sampleParam(), "p.meta.nil is nil"},
		{"nil map", "#{p.stock.a}", &keyParam{}, "p.stock.a is missing"},
		{"missing entry", "#{p.stock.b}", sampleParam(), "p.stock.b is missing"},
		{"missing entry through the VM", "#{p.stock.b + 1}", sampleParam(), "p.stock.b is missing"},
		{"missing entry, nested", "#{string(p.meta.m.y)}", sampleParam(), "p.meta.m.y is missing"},
		{"missing in own lookup", "#{p.params.zz}", sampleParam(), "p.params.zz is missing"},
		{"missing element", "#{p.items[7].sku}", sampleParam(), "p.items[7] is missing: the list has 3 elements"},
		{"untyped member that is not there", "#{string(p.any.zz)}", sampleParam(),
			"p.any.zz is no member of latchkey.keyItem"},
		{"untyped member that the call names", "#{string(p.any[p.name])}", named("secret"),
			"p.any[…] is no member of latchkey.keyItem"},
		{"entry that the call names", "#{p.stock[p.name]}", named("secret"), "p.stock[…] is missing"},
		{"empty text", "#{p.name}", named(""), "p.name is blank"},
		{"spaces", "#{p.name}", named(" \t\n"), "p.name is blank"},
		{"Unicode blanks", "#{p.name}", named("\u00a0\u200b\u3000\ufeff"), "p.name is blank"},
		{"NUL alone", "#{p.name}", named("\x00"), "p.name is blank"},
		{"blank through the VM", `#{p.name + "x"}`, named(" "), "p.name is blank"},
		{"blank result", `#{trim("  " + p.name, "Ann ")}`, sampleParam(), `trim("  " + p.name, "Ann ") is blank`},
		{"empty list", "#{p.ids}", &keyParam{IDs: []int64{}}, "p.ids is an empty list"},
		{"nil list", "#{p.ids}", &keyParam{}, "p.ids is an empty list"},
		{"nothing passes the filter", "#{map(filter(p.items, .qty > 9), .sku)}", sampleParam(),
			"map(filter(p.items, .qty > 9), .sku) is an empty list"},
		{"nil element", "#{map(p.links, .sku)}", &keyParam{Links: []*keyItem{nil}}, "# is nil"},
		{"blank element", "#{p.names}", &keyParam{Names: []string{"x", ""}}, "p.names, element 1, is blank"},
		{"too many elements", "#{1..257}", sampleParam(), "the list makes 257 keys, more than the 256 allowed"},
		{"first of nothing", "#{first(p.ids)}", &keyParam{}, "first(…) is missing: the list has 0 elements"},
		{"nothing found", `#{find(p.items, .sku == "zz").sku}`, sampleParam(), "find(…) is nil"},
		{"nothing smallest", "#{min(p.ids)}", &keyParam{}, "min(…) is nil"},
		{"nil by choice", "#{p.paid ? nil : p.name}", sampleParam(), "p.paid ? nil : p.name is nil"},
		{"variable that is nil", "#{let s = p.self; s.name}", sampleParam(), "s is nil"},
		{"both sides of ??", "#{p.self.name ?? p.stock.b}", sampleParam(), "p.stock.b is missing"},
		{"method that panics", "#{p.boom}", sampleParam(), "p.boom is a method that panics"},
		{"method that fails", "#{p.fail}", sampleParam(), "p.fail is a method that failed"},
		{"method that fails is not replaced by ??", `#{p.fail ?? "x"}`, sampleParam(), "p.fail is a method that failed"},
		{"method with an argument that panics", "#{p.Prefix(99)}", sampleParam(), "p.Prefix(…) is a method that panics"},
		{"argument that does not fit", "#{p.Prefix(300)}", sampleParam(),
			"p.Prefix(…) is given an integer that does not fit int8"},
		{"enum that panics", "#{p.proto.state}", &keyParam{Proto: &keyProto{State: 9}}, "p.proto.state has a method that panics"},
		{"MarshalText that panics", "#{p.level}", &keyParam{Level: -1}, "p.level has a method that panics"},
		{"integer too large", "#{int(p.max)}", sampleParam(), "int(p.max) does not fit an int"},
		{"text that is no integer", "#{int(p.name)}", sampleParam(), "int(p.name) is given text that is no integer"},
		{"fraction", "#{string(p.meta.f)}", sampleParam(), "string(p.meta.f) is a fraction, or too large a float to be exact"},
		{"untyped map as text", "#{string(p.meta.m)}", sampleParam(), "string(p.meta.m) is a map and has no text of its own"},
		{"untyped comparison", "#{p.meta.s > 1}", sampleParam(), "a comparison has two sides that don't compare"},
		{"failure in expr itself", `#{repeat(p.name, -1)}`, sampleParam(),
			"the expression can't be evaluated for these arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := mustCompile(t, tt.template, Var[*keyParam]("p"))
			keys, err := k.RenderAll(t.Context(), tt.arg)
			var e *KeyError
			if !errors.Is(err, ErrKey) || !errors.As(err, &e) {
				t.Fatalf("got %q, %v, want ErrKey", keys, err)
			}
			if e.Reason != tt.want {
				t.Errorf("reason: got %q, want %q", e.Reason, tt.want)
			}
			if want := fmt.Sprintf("latchkey: no key from template %q: %s", tt.template, tt.want); err.Error() != want {
				t.Errorf("got %s", err)
			}
			if strings.Contains(strings.TrimPrefix(err.Error(), "latchkey: no key from template"), "secret") {
				t.Errorf("the message tells a secret: %s", err)
			}
			if e.Template != tt.template || e.Line != 1 || e.Column != 1 || e.Placeholder == "" {
				t.Errorf("got %+v", e)
			}
		})
	}
	k := mustCompile(t, "#{p.m}", Var[marshal]("p"))
	if _, err := k.Render(t.Context(), marshal{keyText{err: errTest}}); !errors.Is(err, errTest) || !errors.Is(err, ErrKey) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("MarshalText that fails: got %v", err)
	}
	if _, err := k.Render(t.Context(), marshal{keyText{text: " "}}); !errors.Is(err, ErrKey) {
		t.Errorf("MarshalText that is blank: got %v", err)
	}
}

// keyText is text by a method of its pointer.
type keyText struct {
	text string
	err  error
}

func (k *keyText) MarshalText() ([]byte, error) { return []byte(k.text), k.err }

func TestArgumentsThatDontFitTheTemplate(t *testing.T) {
	k := mustCompile(t, "#{a}:#{b.id}", Var[int]("a"), Var[*keyParam]("b"))
	for name, args := range map[string][]any{
		"too few":   {1},
		"too many":  {1, sampleParam(), 2},
		"wrong":     {"1", sampleParam()},
		"by value":  {1, *sampleParam()},
		"nil":       {1, nil},
		"typed nil": {1, (*keyParam)(nil)},
		"swapped":   {sampleParam(), 1},
	} {
		if key, err := k.Render(t.Context(), args...); !errors.Is(err, ErrKey) {
			t.Errorf("%s: got %q, %v, want ErrKey", name, key, err)
		}
	}
	list := mustCompile(t, "#{a}", Var[[]int]("a"))
	if key, err := list.Render(t.Context(), []int{1}); !errors.Is(err, ErrKey) {
		t.Errorf("Render of a list: got %q, %v", key, err)
	}
}

func TestValuesOfTheContext(t *testing.T) {
	type tenantKey struct{}
	tenant := newCtxVar("tenant", func(ctx context.Context) string {
		s, _ := ctx.Value(tenantKey{}).(string)
		return s
	})
	claims := newCtxVar("claims", func(context.Context) *keyParam { return nil })
	broken := newCtxVar("broken", func(context.Context) string { panic("secret") })
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")

	k := mustCompile(t, "#{ctx.tenant}:#{id}", tenant, Var[int]("id"))
	if key, err := k.Render(ctx, 7); key != "acme:7" || err != nil {
		t.Errorf("got %q, %v", key, err)
	}
	for template, want := range map[string]string{
		"#{ctx.tenant}":         "ctx.tenant is blank",
		"#{upper(ctx.tenant)}":  "ctx.tenant is blank",
		"#{ctx.claims.user_id}": "",
		"#{ctx.claims.name}":    "ctx.claims is nil",
		"#{ctx.broken}":         "ctx.broken has an extractor that panics",
	} {
		k, err := CompileKey(template, tenant, claims, broken)
		if err == nil {
			_, err = k.Render(t.Context())
		}
		var e *KeyError
		if !errors.As(err, &e) || want != "" && e.Reason != want {
			t.Errorf("%s: got %v, want %s", template, err, want)
		}
	}
}

// An argument may be anything a caller sends. Each value is a key of its own.
func TestHostileValuesAreKeysOfTheirOwn(t *testing.T) {
	k := mustCompile(t, "u:#{p}:x", Var[string]("p"))
	seen := map[string]string{}
	for _, v := range []string{
		"a", "A", "é", "e\u0301", "\xff", "\xfe", "\ufffd", "a\x00", "a\x00\x00", "שלום", "\u202eabc", "abc", "{a}", "a}", "%41",
		"#{p}", "${p}", "a:x", "a%3Ax", "a\n", "a\r\n", "~", "~~", strings.Repeat("a", 1<<20), strings.Repeat("a", 1<<20-1),
		strings.Repeat("é", 1<<19), strings.Repeat(":", 1000), strings.Repeat(":", 999), "<nil>", "nil", "null", "0", "false",
	} {
		key, err := k.Render(t.Context(), v)
		if err != nil {
			t.Errorf("%.20q: %v", v, err)
		}
		if len(key) > 200 || strings.ContainsAny(key, "{}\x00\n\r ") || !strings.HasPrefix(key, "u:") {
			t.Errorf("%.20q: key %q", v, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%.20q and %.20q share %q", v, other, key)
		}
		seen[key] = v
	}
}

func TestOneTemplateServesManyGoroutines(t *testing.T) {
	k := mustCompile(t, `#{p.id}:#{p.self.name ?? "none"}:#{first(sortBy(p.items, .qty)).sku}:#{p.created}`, Var[*keyParam]("p"))
	done := make(chan error)
	const workers = 8
	for w := range workers {
		go func() {
			p := sampleParam()
			p.ID = int64(w)
			p.Created = time.Unix(0, 0)
			want := fmt.Sprintf("%d:none:b:1970-01-01T00%%3A00%%3A00Z", w)
			for range 200 {
				if got, err := k.Render(context.Background(), p); got != want || err != nil {
					done <- fmt.Errorf("got %q, %w, want %q", got, err, want)
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestDirectAccessAllocatesTheKeyAlone(t *testing.T) {
	type outer struct {
		S string
		P *timedNumber
	}
	k := mustCompile(t, "k:#{p.s}:#{p.p.n}:#{p.p.at}", Var[outer]("p"))
	ctx := t.Context()
	allocs := testing.AllocsPerRun(100, func() {
		arg := outer{"some text", &sharedInner}
		key, _, err := renderArg(ctx, k, &arg)
		if key == "" || err != nil {
			t.Error(key, err)
		}
	})
	if allocs != 1 {
		t.Errorf("%v allocations for a key, want 1", allocs)
	}
	fixed := mustCompile(t, "nightly")
	if n := testing.AllocsPerRun(100, func() { sink, _, _ = fixed.render(ctx, nil) }); n != 0 {
		t.Errorf("%v allocations for a fixed key, want 0", n)
	}
}

type timedNumber struct {
	N  uint8
	At time.Time
}

var sharedInner = timedNumber{7, time.Unix(1e9, 5)}
