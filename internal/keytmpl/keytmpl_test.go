package keytmpl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// show writes segments one after the other: literals in quotes, placeholders in their own braces.
func show(segs []Segment) string {
	var b strings.Builder
	for _, s := range segs {
		switch s.Kind {
		case Literal:
			fmt.Fprintf(&b, "%q", s.Text)
		case Expr:
			b.WriteString("{" + s.Text + "}")
		case Path:
			b.WriteString("<" + s.Text + ">")
		}
	}
	return b.String()
}

func TestTemplatesAreSplit(t *testing.T) {
	for _, tt := range []struct{ name, template, want string }{
		{"nothing", ``, ``},
		{"text only", `nightly-report`, `"nightly-report"`},
		{"expression", `order:#{param.id}`, `"order:"{param.id}`},
		{"path", `order:#<param.id>:x`, `"order:"<param.id>":x"`},
		{"braces in an expression", `#{ {"a": 1}["a"] }x`, `{ {"a": 1}["a"] }"x"`},
		{"braces of a predicate", `#{filter(param.items, {.qty > 1})}`, `{filter(param.items, {.qty > 1})}`},
		{"brace in double quotes", `#{"}" + param.id}`, `{"}" + param.id}`},
		{"brace behind an escaped quote", `#{"\"}"}`, `{"\"}"}`},
		{"brace in single quotes", `#{'}'}`, `{'}'}`},
		{"brace in backquotes", "#{`}``}`}", "{`}``}`}"},
		{"brace in a comment", "#{a /* } */}", "{a /* } */}"},
		{"brace in a line comment", "#{a // }\n}", "{a // }\n}"},
		{"greater than", `#{a > b}`, `{a > b}`},
		{"quoted name in a path", `#<header["a>b"]>`, `<header["a>b"]>`},
		{"escaped brace", `##{id}:#{id}`, `"#{id}:"{id}`},
		{"escaped bracket", `##<id>`, `"#<id>"`},
		{"hash in a segment", `order#123`, `"order#123"`},
		{"hash before a digit", `order:#1`, `"order:#1"`},
		{"hash at the end", `order:#`, `"order:#"`},
		{"two hashes", `a##b`, `"a##b"`},
		{"hash before a placeholder", `a###{id}`, `"a##{id}"`},
		{"neighbours", `#{a}#{b}`, `{a}{b}`},
		{"dollar without a brace", `a$b`, `"a$b"`},
		{"less than alone", `a<b`, `"a<b"`},
		{"not ASCII", `größe:#{x}`, `"größe:"{x}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			segs, err := Parse(tt.template)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(segs); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			checkPositions(t, tt.template, segs)
		})
	}
}

// checkPositions holds for every template that can be parsed: segments cover it without gaps, and a placeholder's
// source is where it says.
func checkPositions(t *testing.T, template string, segs []Segment) {
	t.Helper()
	at := 0
	for _, s := range segs {
		if s.Start != at || s.End <= s.Start || s.Source < s.Start {
			t.Fatalf("%q: segment %+v does not start at %d", template, s, at)
		}
		if s.Kind != Literal && template[s.Source:s.Source+len(s.Text)] != s.Text {
			t.Fatalf("%q: source of %+v is elsewhere", template, s)
		}
		if s.Text == "" {
			t.Fatalf("%q: empty segment %+v", template, s)
		}
		at = s.End
	}
	if at != len(template) {
		t.Fatalf("%q: covered up to %d", template, at)
	}
}

func TestWhatLooksLikeAPlaceholderIsNoText(t *testing.T) {
	for _, tt := range []struct {
		name, template, reason, hint string
		offset                       int
	}{
		{"braces", `a:{id}`, "{…} is not a placeholder", "write #{id}", 2},
		{"dollar", `a:${param.id}`, "${…} is not a placeholder", "write #{param.id}", 2},
		{"double braces", `{{ .ID }}`, "{{…}} is not a placeholder", "write #{ID}", 0},
		{"hash inside", `{#id}`, "{#…} is not a placeholder", "write #{id}", 0},
		{"hash name", `order:#id.x:1`, "#id.x looks like a placeholder but is plain text", "write #{id.x}", 6},
		{"hash name at the start", `#param`, "#param looks like a placeholder but is plain text", "write #{param}", 0},
		{"angle brackets", `order:<param.id>`, "<param.id> looks like a placeholder but is plain text", "write #<param.id>", 6},
		{"lonely brace", `a{b`, "{ opens nothing", "a placeholder is written #{…}", 1},
		{"lonely closing brace", `a}b`, "} closes nothing", "a placeholder is written #{…}", 1},
		{"unclosed", `a:#{id`, "#{ is not closed", "a literal #{ is written ##{", 2},
		{"unclosed path", `a:#<id`, "#< is not closed", "a literal #< is written ##<", 2},
		{"unclosed before another", `#{a:#{b}`, "#{ is not closed", "a literal #{ is written ##{", 0},
		{"mixed closers", `a:#{a>`, "#{ is closed by >", "write #{a} or #<a>", 5},
		{"mixed closers, more behind", `a:#{a>:#{b}`, "#{ is closed by >", "write #{a} or #<a>", 5},
		{"mixed closers of a path", `a:#<a}`, "#< is closed by }", "write #{a} or #<a>", 5},
		{"path meets a brace", `#<a:#{b}>`, "#< is not closed", "a literal #< is written ##<", 0},
		{"empty", `#{ }`, "the placeholder is empty", "write #{fn} for the function's name", 0},
		{"empty path", `#<>`, "the placeholder is empty", "write #<fn> for the function's name", 0},
		{"open quote", `#{"a}`, "a quote is not closed", "", 2},
		{"control character", "a\tb", "control character U+0009 in the text of the key", "line breaks are allowed inside #{…} only", 1},
		{"invisible character", "a\u200bb", "invisible character U+200B in the text of the key", "", 1},
		{"blank at the end", "a\n", "the template ends with a blank", "blanks around a key make it a different key; trim the template", 1},
		{"blank at the start", " a", "the template starts with a blank", "blanks around a key make it a different key; trim the template", 0},
		{"broken UTF-8", "a\xffb", "the template is not valid UTF-8", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			segs, err := Parse(tt.template)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %s, %v, want an error", show(segs), err)
			}
			if e.Reason != tt.reason || e.Hint != tt.hint || e.Offset != tt.offset {
				t.Errorf("got %q, %q at %d", e.Reason, e.Hint, e.Offset)
			}
		})
	}
}

func TestPositionsCountLinesAndCharacters(t *testing.T) {
	const template = "größe:#{\n  x ??\r\n  ünbekannt}"
	for _, tt := range []struct {
		offset, line, column int
		text                 string
	}{
		{0, 1, 1, "größe:#{"},
		{strings.Index(template, ":"), 1, 6, "größe:#{"},
		{strings.Index(template, "x"), 2, 3, "  x ??"},
		{strings.Index(template, "kannt"), 3, 7, "  ünbekannt}"},
		{len(template), 3, 13, "  ünbekannt}"},
		{len(template) + 9, 3, 13, "  ünbekannt}"},
	} {
		line, column := Position(template, tt.offset)
		if line != tt.line || column != tt.column || Line(template, line) != tt.text {
			t.Errorf("offset %d: got %d:%d %q", tt.offset, line, column, Line(template, line))
		}
	}
}

func FuzzTemplateParse(f *testing.F) {
	for _, s := range []string{
		"", "order:#{param.id}", "#<a.b>", "##{x}##<y>", "#{a>", "#<a}", "{{x}}", "${x}", "#id", "#{`}``}`}", `#{"\"}"}`,
		"#{a /* } */ // }\n}", "#{#{a}}", "größe:#{x}", "\xff", "a##", "#{'\\", "#{{}", "#", "##{}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		segs, err := Parse(template)
		if err == nil {
			checkPositions(t, template, segs)
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Reason == "" || e.Offset < 0 || e.Offset > len(template) {
			t.Fatalf("%q: bad error %v", template, err)
		}
		line, column := Position(template, e.Offset)
		if line < 1 || column < 1 {
			t.Fatalf("%q: position %d:%d", template, line, column)
		}
	})
}
