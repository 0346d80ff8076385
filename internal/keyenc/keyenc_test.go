package keyenc

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestValuesAreEncoded(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"ordinary id", "Order-42_a.b@c/d+e=f,g;h!i", "Order-42_a.b@c/d+e=f,g;h!i"},
		{"level separator", "a:b", "a%3Ab"},
		{"escape character", "100%", "100%25"},
		{"hash tag of Redis Cluster", "{user}", "%7Buser%7D"},
		{"mark of shortened keys", "~a", "%7Ea"},
		{"template syntax", "#{param.id}", "#%7Bparam.id%7D"},
		{"space", "Jane Doe", "Jane%20Doe"},
		{"controls", "a\x00\n\x7fb", "a%00%0A%7Fb"},
		{"letters of any script", "größe東京", "größe東京"},
		{"broken UTF-8", "a\xff\xc3", "a%FF%C3"},
		{"zero width", "a\u200bb", "a%E2%80%8Bb"},
		{"direction override", "a\u202eb", "a%E2%80%AEb"},
		{"right to left", "שלום", "שלום"},
		{"combining", "e\u0301", "e\u0301"},
		{"replacement character", "\ufffd", "\ufffd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, visible := NewTable().Append(nil, tt.value)
			if string(got) != tt.want || !visible {
				t.Errorf("got %q, %v", got, visible)
			}
		})
	}
}

func TestSeparatorsNextToAValueAreEncoded(t *testing.T) {
	got, _ := NewTable('-', '/').Append([]byte("k-"), "a-b/c_d")
	if want := "k-a%2Db%2Fc_d"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBlankTextShowsNothing(t *testing.T) {
	for _, s := range []string{"", " ", "\t\n", "\u00a0", "\u200b\u200d", "\u3000 \u2028", "\ufeff", "\x00", "\u2800", "\u202e", "\u0085"} {
		if _, visible := NewTable().Append(nil, s); visible || !IsBlank(s) {
			t.Errorf("%q is taken for a value", s)
		}
	}
	for _, s := range []string{"0", " x ", "\xff", "\u0301", "\ufffd", "-"} {
		if _, visible := NewTable().Append(nil, s); !visible || IsBlank(s) {
			t.Errorf("%q is taken for blank", s)
		}
	}
}

func TestEncodingIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText(t, "value")
		table := NewTable(rapid.SliceOf(rapid.SampledFrom([]byte("-/_.,"))).Draw(t, "separators")...)
		got, visible := table.Append(nil, s)
		if back, err := url.PathUnescape(string(got)); err != nil || back != s {
			t.Fatalf("%q became %q, which is read as %q, %v", s, got, back, err)
		}
		if visible == IsBlank(s) {
			t.Fatalf("%q: visible is %v", s, visible)
		}
		if !utf8.Valid(got) || bytes.ContainsAny(got, ":~{} \x00\n") {
			t.Fatalf("%q became %q", s, got)
		}
		if behind, _ := table.Append([]byte("x"), s); string(behind) != "x"+string(got) {
			t.Fatalf("%q became %q and %q", s, got, behind)
		}
	})
}

// anyText draws text that is often not UTF-8 and full of what has to be encoded.
func anyText(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" is bytes") {
		return string(rapid.SliceOf(rapid.Byte()).Draw(t, label))
	}
	return rapid.StringOf(rapid.RuneFrom([]rune("ab1-:/%~{}#_ \u200b\u00e9\u6771\U0001F512"))).Draw(t, label)
}

func TestLiteralTextIsLeftAlone(t *testing.T) {
	if got := Literal("order:#1-a b/größe"); got != "order:#1-a b/größe" {
		t.Errorf("got %q", got)
	}
	if got, want := Literal("#{a}~100%"), "#%7Ba%7D%7E100%25"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongKeysAreShortened(t *testing.T) {
	exact := strings.Repeat("a", MaxLen)
	if got := Shorten([]byte(exact)); got != exact {
		t.Errorf("%d bytes became %q", MaxLen, got)
	}
	rapid.Check(t, func(t *rapid.T) {
		// What the encoder makes: ASCII, runes and escapes, cut anywhere.
		piece := rapid.SampledFrom([]string{"a", "é", "東", "\U0001F512", "%3A", "%FF", "-"})
		key := strings.Join(rapid.SliceOfN(piece, MaxLen, 300).Draw(t, "pieces"), "")
		if len(key) <= MaxLen {
			key += exact
		}
		got := Shorten([]byte(key))
		start, digest, marked := strings.Cut(got, string(Mark))
		if !marked || len(got) > MaxLen || len(digest) != digestLen || !strings.HasPrefix(key, start) {
			t.Fatalf("%q became %q", key, got)
		}
		if !utf8.ValidString(start) || strings.HasSuffix(start, "%") || start[len(start)-2] == '%' {
			t.Fatalf("%q is cut within a character or an escape", start)
		}
		if len(start) < MaxLen-1-digestLen-3 {
			t.Fatalf("%q is shorter than need be", start)
		}
		if other := Shorten([]byte(key + "a")); other == got {
			t.Fatalf("%q and one character more are both %q", key, got)
		}
	})
}
