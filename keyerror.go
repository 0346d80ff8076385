package latchkey

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/latchkey-go/latchkey/internal/keytmpl"
)

// KeyError says why a key template can't be compiled, or why it makes no key for the arguments of one call.
// It matches [ErrKey].
//
// A value of the call is never part of it: it names the template, the place in it and the reason, so that it can be
// logged.
type KeyError struct {
	// Template is the template, or the condition, as the user wrote it.
	Template string
	// Line and Column say where in Template the fault is, both counted from 1; columns count characters.
	Line, Column int
	// Placeholder is the source of the placeholder that gave no text; empty when the template itself is wrong.
	Placeholder string
	// Reason says what is wrong.
	Reason string
	// Hint says what to write instead; it may be empty.
	Hint string

	condition bool
	cause     error
}

// Error implements error. A template that is wrong is shown with a caret under the fault; a call without a key makes
// one line.
func (e *KeyError) Error() string {
	if e.Placeholder != "" {
		return e.callError()
	}
	var b strings.Builder
	what := "key template"
	if e.condition {
		what = "condition"
	}
	fmt.Fprintf(&b, "latchkey: %s: %s", what, e.Reason)
	if e.Line > 0 {
		fmt.Fprintf(&b, " (%d:%d)\n | %s\n | %s^", e.Line, e.Column,
			printable(keytmpl.Line(e.Template, e.Line)), strings.Repeat(".", e.Column-1))
	}
	if e.Hint != "" {
		if e.Line > 0 {
			b.WriteString("\nhint: ")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(e.Hint)
	}
	return b.String()
}

func (e *KeyError) callError() string {
	if e.condition {
		return fmt.Sprintf("latchkey: condition %q can't be decided: %s", e.Template, e.Reason)
	}
	return fmt.Sprintf("latchkey: no key from template %q: %s", e.Template, e.Reason)
}

// Is reports whether target is [ErrKey].
func (e *KeyError) Is(target error) bool { return target == ErrKey }

// Unwrap returns the error of a user's method that was asked for the value, if that is what failed. Its text is not
// part of the message, since it may quote the value.
func (e *KeyError) Unwrap() error { return e.cause }

// printable replaces what would spoil the line the caret points into, one character for one.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, line)
}

// source is the text that a user wrote, for making errors that point into it.
type source struct {
	text      string
	condition bool
}

// errorAt returns an error about the template itself.
func (s source) errorAt(offset int, reason, hint string) *KeyError {
	line, column := keytmpl.Position(s.text, offset)
	return &KeyError{
		Template: s.text, Line: line, Column: column, Reason: reason, Hint: hint, condition: s.condition,
	}
}

// errorFor returns an error about one call.
func (s source) errorFor(seg *keytmpl.Segment, f *faultError) *KeyError {
	line, column := keytmpl.Position(s.text, seg.Start)
	return &KeyError{
		Template: s.text, Line: line, Column: column, Placeholder: strings.TrimSpace(seg.Text),
		Reason: f.Error(), condition: s.condition, cause: f.cause,
	}
}

// faultError is why a placeholder has no text in one call. Only its kind and the name of the value are kept.
type faultError struct {
	what   string // the path that was asked for, or what else was at fault
	reason string // completes the sentence: "is nil"
	gone   bool   // there is no value: what ?? replaces. A value that can't be used is another matter
	cause  error
}

func (f *faultError) Error() string { return f.what + " " + f.reason }

func faultGone(what, reason string) *faultError {
	return &faultError{what: what, reason: reason, gone: true}
}

func faultBad(what, reason string) *faultError { return &faultError{what: what, reason: reason} }
