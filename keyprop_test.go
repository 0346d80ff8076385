package latchkey

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/latchkey-go/latchkey/internal/keyenc"
)

// anyValue draws text that is full of what makes encoders stumble.
func anyValue(t *rapid.T, label string) string {
	if rapid.IntRange(0, 3).Draw(t, label+" is bytes") == 0 {
		return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, label))
	}
	pieces := rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 6).Draw(t, label)
	return strings.Join(pieces, "")
}

// A key gives its values back: the text between two separators is exactly one value. That is more than being different
// for different values, and holds for any template with separators between its values.
func TestKeysCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seps := rapid.SliceOfN(rapid.SampledFrom([]string{":", "::", "/", "-", "_", ".", ", ", "=", "a:b", "x-y", "%:", ":~"}), 2, 2).
			Draw(t, "separators")
		values := []string{anyValue(t, "A"), anyValue(t, "B"), anyValue(t, "C")}
		template := "k:#{p.A}" + seps[0] + "#{p.B}" + seps[1] + "#<p.C>"
		k, err := CompileKey(template, Var[texts]("p"))
		if err != nil {
			t.Fatal(err)
		}
		key, err := k.Render(context.Background(), texts{values[0], values[1], values[2]})
		if slices.ContainsFunc(values, keyenc.IsBlank) {
			if !errors.Is(err, ErrKey) {
				t.Fatalf("%q made %q, %v, want ErrKey", values, key, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(key, "~") {
			return // shortened
		}
		for i, value := range readBack(t, strings.TrimPrefix(key, "k:"), seps) {
			if value != values[i] {
				t.Fatalf("%s: %q made %q, in which value %d reads %q", template, values, key, i, value)
			}
		}
	})
}

// readBack cuts a key at its separators. The first character of a separator that is no letter is nowhere in a value.
func readBack(t *rapid.T, key string, seps []string) []string {
	var values []string
	for _, sep := range seps {
		lit := keyenc.Literal(sep)
		first := strings.IndexFunc(sep, func(r rune) bool { return keyenc.Separates(byte(r)) })
		before := len(keyenc.Literal(sep[:first]))
		at := strings.IndexByte(key, sep[first]) - before
		if at < 0 || !strings.HasPrefix(key[at:], lit) {
			t.Fatalf("%q is not cut by %q", key, sep)
		}
		values = append(values, key[:at])
		key = key[at+len(lit):]
	}
	values = append(values, key)
	for i, v := range values {
		decoded, err := url.PathUnescape(v)
		if err != nil {
			t.Fatal(err)
		}
		values[i] = decoded
	}
	return values
}

func TestListsAreSortedAndUnique(t *testing.T) {
	k := mustCompile(t, "n:#{p}:x", Var[[]uint16]("p"))
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Uint16Range(0, 40), 1, 60).Draw(t, "list")
		keys, err := k.RenderAll(context.Background(), list)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Fatalf("%v is not sorted and unique", keys)
		}
		for _, n := range list {
			if !slices.Contains(keys, fmt.Sprintf("n:%d:x", n)) {
				t.Fatalf("%d is not in %v", n, keys)
			}
		}
		if shuffled := rapid.Permutation(list).Draw(t, "shuffled"); len(shuffled) > 0 {
			again, err := k.RenderAll(context.Background(), shuffled)
			if err != nil || !slices.Equal(keys, again) {
				t.Fatalf("%v in another order made %v, not %v", list, again, keys)
			}
		}
	})
}

// The VM and direct access are two ways to one key.
func TestDirectAccessAgreesWithTheVM(t *testing.T) {
	direct := mustCompile(t, "k-#{p.A}:#{n}", Var[*texts]("p"), Var[int64]("n"))
	vm := mustCompile(t, `k-#{(p.A)[0:]}:#{string(n)}`, Var[*texts]("p"), Var[int64]("n"))
	if !direct.direct || vm.direct {
		t.Fatal("the templates don't take the ways they are meant to")
	}
	rapid.Check(t, func(t *rapid.T) {
		p, n := &texts{A: anyValue(t, "A")}, rapid.Int64().Draw(t, "n")
		a, _, err := renderArgs2(context.Background(), direct, &p, &n)
		b, _, err2 := renderArgs2(context.Background(), vm, &p, &n)
		if a != b || (err == nil) != (err2 == nil) {
			t.Fatalf("%q, %d made %q, %v and %q, %v", p.A, n, a, err, b, err2)
		}
	})
}

// Templates come from configuration files: whatever is in them, compiling ends in a key or in an error that points
// into the template.
func FuzzCompileKey(f *testing.F) {
	for _, tt := range wrongTemplates {
		f.Add(tt.template)
	}
	for _, s := range []string{
		`#{map(filter(p.items, .qty > 1 and p.paid), .sku)}`, `#{let x = p.self; x?.name ?? p.meta.s ?? "z"}`,
		`#{p.items | map(.sku) | first()}`, `#{reduce(p.items, #acc + .qty, 0)}`, `#{{"a": p.id}["a"]}`, `#{p.name[1:][0:2]}`,
		`#{[p.id, [p.name]]}`, `#{if p.paid {1} else {"a"}}`, `#{p.self.Total()}`, `#{not (p.name in p.stock)}`, `#{-p.id ** 2}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		k, err := CompileKey(template, Var[*keyParam]("p"))
		if err != nil {
			var e *KeyError
			if !errors.As(err, &e) || e.Reason == "" || e.Error() == "" {
				t.Fatalf("%q: got %v", template, err)
			}
			return
		}
		for _, arg := range []*keyParam{sampleParam(), {}, nil} {
			if _, err := k.RenderAll(context.Background(), arg); err != nil && !errors.Is(err, ErrKey) {
				t.Fatalf("%q: got %v, want ErrKey", template, err)
			}
		}
	})
}
