package latchkey

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// texts are the values of one call.
type texts struct{ A, B, C string }

// A renderer makes a key, or says that there is none.
type renderer func(v texts) (key string, ok bool)

// collisionShapes are templates over texts. plain is what a library without an encoder would make of them.
var collisionShapes = []struct {
	template string
	plain    func(v texts) string
	sep      string // what stands between the values
}{
	{"o:#{p.A}:#{p.B}:#{p.C}", func(v texts) string { return "o:" + v.A + ":" + v.B + ":" + v.C }, ":"},
	{"#{p.A}/#{p.B}-#{p.C}", func(v texts) string { return v.A + "/" + v.B + "-" + v.C }, "/"},
	{"#{p.A}-#{p.B}-#{p.C}", func(v texts) string { return v.A + "-" + v.B + "-" + v.C }, "-"},
	{"#{p.A}_x_#{p.B}x.x#{p.C}", func(v texts) string { return v.A + "_x_" + v.B + "x.x" + v.C }, "_x_"},
	{"t#{p.A} #{p.B}%:#{p.C}%", func(v texts) string { return "t" + v.A + " " + v.B + "%:" + v.C + "%" }, " "},
	{"#{p.A}::#{p.B},#{p.C}~", func(v texts) string { return v.A + "::" + v.B + "," + v.C + "~" }, "::"},
	{`#{p.A + ""}:#{p.B}=#{upper(p.C) == p.C ? p.C : p.C}`,
		func(v texts) string { return v.A + ":" + v.B + "=" + v.C }, ":"},
}

func templateRenderer(tb testing.TB, template string) renderer {
	k := mustCompile(tb, template, Var[texts]("p"))
	return func(v texts) (string, bool) {
		key, _, err := renderArg(context.Background(), k, &v) // not tb's: a fuzz target has another
		return key, err == nil
	}
}

// fragments are what values are made of: separators, escapes and the marks of shortened keys and hash tags, in raw and
// in escaped form, so that moving one of them from a value to the next makes equal keys if nothing is encoded.
var fragments = []string{
	":", "::", "/", "-", "_", ".", ",", "=", " ", "~", "{", "}", "#", "%", "%3A", "%25", "%253A", "%2D", "%2F", "%5F", "%7E",
	"a", "b", "x", "1", "%", "_x_", "x.x", "%:", "é", "e\u0301", "\x00", "\xff", "\u200b", "#{p.A}", "order", "0",
}

// movedPair returns two different calls that a careless encoder takes for one: the second has pieces of the first moved
// over the border of two values, or replaced by how they would be written in a key.
func movedPair(r *rand.Rand, sep string) (v, w texts) {
	parts := make([][]string, 3)
	for i := range parts {
		for range 1 + r.IntN(4) {
			parts[i] = append(parts[i], pick(r, sep))
		}
	}
	v = joined(parts)
	i := r.IntN(2) // the border between value i and the next
	left, right := parts[i], parts[i+1]
	switch r.IntN(6) {
	case 0: // a, sep b  →  a sep, b
		parts[i], parts[i+1] = append(slices.Clip(left), sep), right
		v = joined([][]string{parts[0], parts[1], parts[2]})
		parts[i], parts[i+1] = left, append([]string{sep}, right...)
	case 1: // the last piece goes over, with the separator
		parts[i] = left[:len(left)-1]
		parts[i+1] = append([]string{left[len(left)-1], sep}, right...)
	case 2: // the first piece comes back, with the separator
		parts[i] = append(append(slices.Clip(left), sep), right[0])
		parts[i+1] = right[1:]
	case 3: // a separator moves within what both values make together
		all := joined([][]string{left, {sep}, right})
		text := all.A + all.B + all.C
		v, w = resplit(r, v, i, text, sep), resplit(r, v, i, text, sep)
		return v, w
	case 4: // a piece is replaced by its escaped or unescaped form
		j := r.IntN(len(left))
		left = append([]string(nil), left...)
		left[j] = swapEscape(left[j])
		parts[i] = left
	case 5: // a piece is replaced by another
		left = append([]string(nil), left...)
		left[r.IntN(len(left))] = pick(r, sep)
		parts[i] = left
	}
	return v, joined(parts)
}

func pick(r *rand.Rand, sep string) string {
	if r.IntN(4) == 0 {
		return sep
	}
	return fragments[r.IntN(len(fragments))]
}

func joined(parts [][]string) texts {
	return texts{strings.Join(parts[0], ""), strings.Join(parts[1], ""), strings.Join(parts[2], "")}
}

// resplit cuts text at one of its separators into the values i and i+1 of v.
func resplit(r *rand.Rand, v texts, i int, text, sep string) texts {
	cuts := strings.Count(text, sep)
	at := 0
	for range r.IntN(cuts) + 1 {
		at += strings.Index(text[at:], sep) + len(sep)
	}
	left, right := text[:at-len(sep)], text[at:]
	if i == 0 {
		return texts{left, right, v.C}
	}
	return texts{v.A, left, right}
}

func swapEscape(s string) string {
	const hex = "0123456789ABCDEF"
	if len(s) == 3 && s[0] == '%' {
		hi, lo := strings.IndexByte(hex, s[1]), strings.IndexByte(hex, s[2])
		return string([]byte{byte(hi<<4 | lo)})
	}
	return "%" + string(hex[s[0]>>4]) + string(hex[s[0]&15]) + s[1:]
}

// collisions counts the pairs of different calls that share a key.
func collisions(seed uint64, n int, sep string, render renderer) (compared, shared int, example [2]texts) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		v, w := movedPair(r, sep)
		if v == w {
			continue
		}
		a, ok := render(v)
		b, ok2 := render(w)
		if !ok || !ok2 {
			continue // a blank value: no key, so no shared lock either
		}
		compared++
		if a == b {
			shared++
			example = [2]texts{v, w}
		}
	}
	return compared, shared, example
}

func TestDifferentCallsNeverShareAKey(t *testing.T) {
	const want = 100_000
	total := 0
	for seed := uint64(1); total < want; seed++ {
		for _, s := range collisionShapes {
			compared, shared, example := collisions(seed, 5_000, s.sep, templateRenderer(t, s.template))
			if shared > 0 {
				t.Fatalf("%s: %d of %d pairs share a key, such as %q and %q",
					s.template, shared, compared, example[0], example[1])
			}
			if compared < 1000 {
				t.Fatalf("%s: only %d pairs have keys: the generator makes nothing to compare", s.template, compared)
			}
			total += compared
		}
	}
	t.Logf("%d pairs compared", total)
}

// A test that can't fail proves nothing: encoders that are broken in the ways encoders usually are must be caught by
// the same pairs.
func TestCollisionTestCatchesBrokenEncoders(t *testing.T) {
	for _, s := range collisionShapes {
		for name, broken := range map[string]func(string) string{
			"nothing encoded":        func(v string) string { return v },
			"separator encoded only": func(v string) string { return strings.ReplaceAll(v, s.sep, swapEscape(s.sep[:1])+s.sep[1:]) },
			"separator dropped":      func(v string) string { return strings.ReplaceAll(v, s.sep, "") },
			"separator made a point": func(v string) string { return strings.ReplaceAll(v, s.sep, ".") },
		} {
			_, shared, _ := collisions(1, 4_000, s.sep, func(v texts) (string, bool) {
				return s.plain(texts{broken(v.A), broken(v.B), broken(v.C)}), true
			})
			if shared == 0 {
				t.Errorf("%s: %s: no collision found", s.template, name)
			}
		}
	}
}

func FuzzKeysNeverCollide(f *testing.F) {
	f.Add("a:b", "c", "d", "a", "b:c", "d")
	f.Add("a%3Ab", "c", "d", "a:b", "c", "d")
	f.Add("a", ":b", "c", "a:", "b", "c")
	f.Add("1%25", "2", "3", "1", "%252", "3")
	f.Add("x", "y_x_z", "1", "x_x_y", "z", "1")
	f.Add("\x00", "\xff", "é", "%00", "%FF", "e\u0301")
	f.Add(strings.Repeat("a", 300), "b", "c", strings.Repeat("a", 299), "ab", "c")
	renderers := make([]renderer, len(collisionShapes))
	for i, s := range collisionShapes {
		renderers[i] = templateRenderer(f, s.template)
	}
	f.Fuzz(func(t *testing.T, a1, b1, c1, a2, b2, c2 string) {
		v, w := texts{a1, b1, c1}, texts{a2, b2, c2}
		if v == w {
			return
		}
		for i, render := range renderers {
			a, ok := render(v)
			b, ok2 := render(w)
			if ok && ok2 && a == b {
				t.Fatalf("%s: %q and %q share the key %q", collisionShapes[i].template, v, w, a)
			}
		}
	})
}
