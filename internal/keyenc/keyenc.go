// Package keyenc writes values into lock keys so that different values can't be confused.
//
// A key is literal text with values in between. A value is written as it is, except for the bytes that could be read as
// something else, which become %XX. Since every such byte is written in one way only, the text between two separators
// gives back exactly one value: a:b and c can never make the key of a and b:c.
//
// Values are compared byte by byte. Texts that look alike but differ in their bytes (é as one character or as two) are
// different keys: normalising them would tie keys to a version of Unicode, and two releases of a program would lock
// past each other.
package keyenc

import "unicode/utf8"

// Table says which bytes stay as they are.
type Table struct {
	plain [256]uint8 // 1 or 0
}

// always are the ASCII punctuation marks that are encoded in every value: the escape character, the level separator, the
// mark of a shortened key, and the braces of a Redis Cluster hash tag.
const always = "%:~{}"

// NewTable returns the table for a value that stands next to the given separators.
func NewTable(separators ...byte) *Table {
	t := &Table{}
	for c := '!'; c <= '~'; c++ {
		t.plain[c] = 1
	}
	for i := range len(always) {
		t.plain[always[i]] = 0
	}
	for _, c := range separators {
		t.plain[c] = 0
	}
	return t
}

// Plain reports whether an ASCII byte stays as it is.
func (t *Table) Plain(c byte) bool { return t.plain[c] == 1 }

// Append appends s, encoded. It reports whether s holds anything that can be seen: a value that is empty or nothing but
// blanks is no value.
func (t *Table) Append(b []byte, s string) (_ []byte, visible bool) {
	// Nearly every value is plain. Four bytes at a time, since the table answers faster than a branch.
	i := 0
	for ; i+4 <= len(s); i += 4 {
		if t.plain[s[i]]&t.plain[s[i+1]]&t.plain[s[i+2]]&t.plain[s[i+3]] == 0 {
			return t.appendSlow(b, s)
		}
	}
	for ; i < len(s); i++ {
		if t.plain[s[i]] == 0 {
			return t.appendSlow(b, s)
		}
	}
	return append(b, s...), len(s) > 0
}

// appendSlow is Append for texts that are long or hold something to encode.
func (t *Table) appendSlow(b []byte, s string) (_ []byte, visible bool) {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if t.plain[c] == 1 {
				b = append(b, c)
			} else {
				b = appendByte(b, c)
			}
			visible = visible || c > ' ' && c < 0x7F
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = appendByte(b, c)
			visible = true
		case blank(r):
			for j := range size {
				b = appendByte(b, s[i+j])
			}
		default:
			b = append(b, s[i:i+size]...)
			visible = true
		}
		i += size
	}
	return b, visible
}

const hexDigits = "0123456789ABCDEF"

func appendByte(b []byte, c byte) []byte {
	return append(b, '%', hexDigits[c>>4], hexDigits[c&15])
}

// Literal encodes text that the author of a template wrote. Separators are theirs to choose; only what the encoder or
// the backend gives a meaning is encoded.
func Literal(s string) string {
	var b []byte
	for i := range len(s) {
		switch c := s[i]; c {
		case '%', '~', '{', '}':
			b = appendByte(b, c)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// Separates reports whether a byte of a template's literal text can mark the end of a value: no letter or digit, since
// values are made of those, and nothing that Literal writes as an escape, since values are full of escapes.
func Separates(c byte) bool {
	switch {
	case c >= utf8.RuneSelf, '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		return false
	case c == '%', c == '~', c == '{', c == '}':
		return false
	}
	return true
}
