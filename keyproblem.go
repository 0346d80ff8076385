package latchkey

import (
	"reflect"
	"strings"
)

// textProblem says why values of this shape can't be a key's text, or nil. list tells whether they make one key for
// each element.
func (s shape) textProblem(path string) (list bool, p *problem) {
	if s.alts != nil {
		lists := 0
		for _, alt := range s.alts {
			isList, p := alt.textProblem(path)
			if p != nil {
				return false, p
			}
			if isList {
				lists++
			}
		}
		if lists > 0 && lists < len(s.alts) {
			return false, &problem{reason: "it is a list in one case and a single value in another: " + s.String()}
		}
		return lists > 0, nil
	}
	if s.null {
		return false, nil // a fault at run time, if it gets there
	}
	if s.elem == nil && (s.t == nil || textKindOf(s.t) != textList) {
		if s.of != nil && derefType(s.t).Kind() == reflect.Struct && textKindOf(s.t) == textNone {
			return false, describedProblem(s.of, path)
		}
		return false, scalarProblem(s.t, path)
	}
	elem, _ := s.element()
	isList, p := elem.textProblem(path + "[…]")
	switch {
	case p != nil && elem.t != nil && derefType(elem.t).Kind() == reflect.Struct:
		hint := "write map(" + path + ", .X) for one key per element"
		names := textMembers(derefType(elem.t))
		if elem.of != nil {
			names = elem.of.Names()
		}
		if len(names) > 0 {
			hint = "write map(" + path + ", ." + names[0] + ") for one key per element"
		}
		return true, &problem{reason: "the elements of this list have no text: " + p.reason, hint: hint}
	case p != nil:
		return true, &problem{reason: "the elements of this list have no text: " + p.reason,
			hint: "convert each of them, by string(…) or int(…)"}
	case isList:
		return true, &problem{reason: "a list of lists", hint: "write flatten(…) for one key per innermost element"}
	}
	return true, nil
}

// describedProblem says that a value which an adapter describes has no text of its own.
func describedProblem(of Members, path string) *problem {
	p := &problem{reason: of.String() + " has no text of its own", hint: "name one of its members"}
	if names := of.Names(); len(names) > 0 {
		p.hint += ": " + path + "." + strings.Join(names[:min(len(names), 3)], ", "+path+".")
	}
	return p
}

// scalarProblem says why a value of type t has no text, or nil.
func scalarProblem(t reflect.Type, path string) *problem {
	if t == nil || textKindOf(t) == textUnknown {
		return &problem{
			reason: "the type of this is not known before the call" + ofType(t),
			hint:   "convert it: string(" + path + ") or int(" + path + ")",
		}
	}
	if kind := textKindOf(t); kind != textNone && kind != textList {
		return nil
	}
	t = derefType(t)
	p := &problem{reason: article(typeName(t)) + " has no exact text"}
	switch {
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		p.hint = "convert it: int(" + path + "), or int(round(" + path + " * 100)) for two decimals"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		p.hint = "if it holds text, write string(" + path + ")"
	case isInt(t):
		p.hint = "write " + path + ".String() for its name, or int(" + path + ") for its number"
	case isStringer(t):
		p.hint = "its String method may print anything; if it is exact and stable, write " + path + ".String()"
	case t.Kind() == reflect.Map:
		p.hint = "name one of its entries: " + path + `["…"]`
	case t.Kind() == reflect.Struct:
		p.hint = "name one of its members"
		if names := textMembers(t); len(names) > 0 {
			p.hint += ": " + path + "." + strings.Join(names, ", "+path+".")
		}
	}
	return p
}

func ofType(t reflect.Type) string {
	if t == nil || t == typeAny {
		return ""
	}
	return " (it is " + article(typeName(t)) + ")"
}

// textMembers names the first members of t that have a text.
func textMembers(t reflect.Type) []string {
	const most = 3
	var names []string
	for _, c := range candidatesOf(t) {
		if len(names) < most && !c.hidden && !c.args && !c.method && c.depth == 0 && scalarProblem(c.typ, "") == nil {
			names = append(names, c.name)
		}
	}
	return names
}
