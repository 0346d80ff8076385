package keytmpl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a fault in a template's syntax.
type Error struct {
	// Offset is the byte offset in the template.
	Offset int
	// Reason says what is wrong, Hint how to write it; Hint may be empty.
	Reason, Hint string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("offset %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("offset %d: %s; %s", e.Offset, e.Reason, e.Hint)
}

func (p *parser) errorAt(offset int, reason, hint string) *Error {
	return &Error{Offset: offset, Reason: reason, Hint: hint}
}

// Position turns a byte offset into a line and a column, both counted from 1; columns count runes, as editors do.
func Position(template string, offset int) (line, column int) {
	offset = min(max(offset, 0), len(template))
	before := template[:offset]
	line = 1 + strings.Count(before, "\n")
	column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return line, column
}

// Line returns the text of a line counted from 1, without its line break.
func Line(template string, line int) string {
	for ; line > 1; line-- {
		i := strings.IndexByte(template, '\n')
		if i < 0 {
			return ""
		}
		template = template[i+1:]
	}
	if i := strings.IndexByte(template, '\n'); i >= 0 {
		template = template[:i]
	}
	return strings.TrimSuffix(template, "\r")
}
