// Package keytmpl splits a key template such as
//
//	order:#{param.id}:#<param.item.sku>
//
// into literal and placeholder segments. It knows where every piece stands in the template, and nothing of what a
// placeholder's source means: types and expressions are the caller's business.
//
// The syntax is deliberately intolerant. A key template that is taken for plain text makes one lock out of thousands,
// so everything that looks like a placeholder of some other template language is an error with a hint.
package keytmpl

import (
	"strings"
	"unicode/utf8"
)

// Kind tells the segments of a template apart.
type Kind uint8

const (
	// Literal is text that goes into the key.
	Literal Kind = iota
	// Expr is the source of #{…}: any expression.
	Expr
	// Path is the source of #<…>: a member path only.
	Path
)

// Segment is one piece of a template.
type Segment struct {
	Kind Kind
	// Text is the literal with ##{ and ##< unescaped, or the source between a placeholder's braces.
	Text string
	// Start and End are the byte offsets of the whole segment in the template.
	Start, End int
	// Source is the byte offset of a placeholder's source in the template; for literals it equals Start.
	Source int
}

// Parse splits a template. Neighbouring literals are one segment, and no literal is empty, so an empty template has no
// segments. The error is always an *Error.
func Parse(template string) ([]Segment, error) {
	p := parser{src: template}
	if err := p.wellFormed(); err != nil {
		return nil, err
	}
	for p.pos < len(p.src) {
		var err *Error
		switch {
		case p.at("##{"), p.at("##<"):
			p.escaped()
		case p.at("#{"):
			err = p.expr()
		case p.at("#<"):
			err = p.path()
		default:
			err = p.literal()
		}
		if err != nil {
			return nil, err
		}
	}
	p.flush()
	return p.segs, nil
}

type parser struct {
	src  string
	pos  int
	segs []Segment

	lit      strings.Builder // the literal being collected
	litStart int
	open     int // ##{ seen and not closed yet: their } is literal
}

func (p *parser) at(s string) bool { return strings.HasPrefix(p.src[p.pos:], s) }

// take appends the next n bytes of the source to the literal.
func (p *parser) take(n int) {
	p.put(p.src[p.pos : p.pos+n])
	p.pos += n
}

func (p *parser) put(s string) {
	if p.lit.Len() == 0 {
		p.litStart = p.pos
	}
	p.lit.WriteString(s)
}

func (p *parser) flush() {
	if p.lit.Len() == 0 {
		return
	}
	p.segs = append(p.segs, Segment{
		Kind: Literal, Text: p.lit.String(), Start: p.litStart, End: p.pos, Source: p.litStart,
	})
	p.lit.Reset()
}

func (p *parser) placeholder(kind Kind, start, source, sourceEnd, end int) {
	p.flush()
	p.segs = append(p.segs, Segment{
		Kind: kind, Text: p.src[source:sourceEnd], Start: start, End: end, Source: source,
	})
	p.pos = end
}

// wellFormed rejects what would make two templates that look alike differ: broken UTF-8, and blanks at either end,
// which configuration files add without being asked.
func (p *parser) wellFormed() *Error {
	for i := 0; i < len(p.src); {
		r, size := utf8.DecodeRuneInString(p.src[i:])
		if r == utf8.RuneError && size == 1 {
			return p.errorAt(i, "the template is not valid UTF-8", "")
		}
		i += size
	}
	const hint = "blanks around a key make it a different key; trim the template"
	if trimmed := strings.TrimLeft(p.src, blanks); len(trimmed) < len(p.src) {
		return p.errorAt(0, "the template starts with a blank", hint)
	}
	if trimmed := strings.TrimRight(p.src, blanks); len(trimmed) < len(p.src) {
		return p.errorAt(len(trimmed), "the template ends with a blank", hint)
	}
	return nil
}

const blanks = " \t\r\n\v\f"
