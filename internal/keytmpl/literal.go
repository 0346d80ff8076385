package keytmpl

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaped reads ##{ or ##<, which stand for the text #{ or #<.
func (p *parser) escaped() {
	if p.at("##{") {
		p.open++
	}
	p.put(p.src[p.pos+1 : p.pos+3])
	p.pos += 3
}

// literal reads one rune of literal text, or says why it can't be that.
func (p *parser) literal() *Error {
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	switch {
	case r == '{':
		return p.lookalike(p.pos)
	case r == '}' && p.open > 0:
		p.open--
	case r == '}':
		return p.errorAt(p.pos, "} closes nothing", "a placeholder is written #{…}")
	case r == '$' && p.at("${"):
		return p.lookalike(p.pos)
	case r == '#' && p.segmentStart() && isNameStart(p.runeAt(p.pos+1)):
		name := p.name(p.pos + 1)
		return p.errorAt(p.pos, fmt.Sprintf("#%s looks like a placeholder but is plain text", name),
			fmt.Sprintf("write #{%s}", name))
	case r == '<' && p.angled() != "":
		return p.errorAt(p.pos, fmt.Sprintf("<%s> looks like a placeholder but is plain text", p.angled()),
			fmt.Sprintf("write #<%s>", p.angled()))
	case unicode.IsControl(r):
		return p.errorAt(p.pos, fmt.Sprintf("control character %U in the text of the key", r),
			"line breaks are allowed inside #{…} only")
	case invisible(r):
		return p.errorAt(p.pos, fmt.Sprintf("invisible character %U in the text of the key", r), "")
	}
	p.take(size)
	return nil
}

// lookalike explains a brace in literal text. Braces are never plain text: they would be read as a hash tag by Redis
// Cluster, and they are how most other template languages mark a placeholder.
func (p *parser) lookalike(at int) *Error {
	rest := p.src[at:]
	for _, form := range []struct{ open, shut string }{{"${", "}"}, {"{{", "}}"}, {"{#", "}"}, {"{", "}"}} {
		if !strings.HasPrefix(rest, form.open) {
			continue
		}
		body, _, closed := strings.Cut(rest[len(form.open):], form.shut)
		body = strings.TrimLeft(strings.TrimSpace(body), ".")
		if !closed || body == "" || strings.ContainsAny(body, "{}\n") {
			return p.errorAt(at, fmt.Sprintf("%s opens nothing", form.open), "a placeholder is written #{…}")
		}
		return p.errorAt(at, fmt.Sprintf("%s…%s is not a placeholder", form.open, form.shut),
			fmt.Sprintf("write #{%s}", body))
	}
	return p.errorAt(at, "a brace in the text of the key", "a placeholder is written #{…}")
}

// segmentStart reports whether a name here would begin a segment of the key: order#123 is plain text, order:#id is
// surely a forgotten brace.
func (p *parser) segmentStart() bool {
	if p.pos == 0 {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(p.src[:p.pos])
	return r != '#' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// angled returns the path in <path>, or "" if the text here is something else.
func (p *parser) angled() string {
	body, _, closed := strings.Cut(p.src[p.pos+1:], ">")
	if !closed || body == "" {
		return ""
	}
	for i, r := range body {
		if !isNameStart(r) && (i == 0 || !unicode.IsDigit(r) && r != '.') {
			return ""
		}
	}
	return body
}

func (p *parser) runeAt(i int) rune {
	r, size := utf8.DecodeRuneInString(p.src[i:])
	if size == 0 {
		return -1
	}
	return r
}

// name returns the dotted name that starts at i.
func (p *parser) name(i int) string {
	rest := p.src[i:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return !isNameStart(r) && !unicode.IsDigit(r) && r != '.'
	})
	if end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimRight(rest, ".")
}

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

// invisible lists characters that nobody means to have in a key and nobody sees there. The list is fixed on purpose:
// unicode.IsPrint changes its mind between Go versions.
func invisible(r rune) bool {
	switch {
	case r == 0x00AD, r == 0x061C, r == 0x180E, r == 0xFEFF,
		0x200B <= r && r <= 0x200F, 0x2028 <= r && r <= 0x202E, 0x2060 <= r && r <= 0x206F:
		return true
	}
	return false
}
