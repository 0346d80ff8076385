package latchkey

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/latchkey-go/latchkey/internal/keyenc"
	"github.com/latchkey-go/latchkey/internal/keytmpl"
)

// KeyExpr is a compiled key template. It is immutable and safe for concurrent use.
type KeyExpr struct {
	src     source
	env     keyEnv
	parts   []keyPart
	tail    string // literal text behind the last value
	list    bool   // one value is a list: the template makes one key for each element
	direct  bool   // every value is read by its offset:
	fast    []directPart
	maxKeys int
}

// keyPart is a value with the literal text in front of it.
type keyPart struct {
	literal string
	seg     keytmpl.Segment
	table   *keyenc.Table
	value   *compiled
	list    bool
}

// CompileKey compiles a key template for the given variables.
//
//	k, err := latchkey.CompileKey("order:#{param.id}", latchkey.Var[Param]("param"))
//
// A template is text with placeholders. #{…} takes an expression (the language is that of github.com/expr-lang/expr),
// #<…> a member path only; ##{ and ##< stand for a literal #{ and #<. What merely looks like a placeholder is an error.
//
// A member is found by its exact Go name, then by its json, db or protobuf name, then by either in other case, then as a
// getter (GetName). Methods without arguments, entries of maps, fields of embedded structs and what pointers point at
// are members too. A name that can mean two members is an error.
//
// A value is a string, an integer, a bool, a [time.Time] (written in UTC), an [encoding.TextMarshaler], a protobuf enum
// (by name), or of a named type over these. A list of them makes one key for each element. Types without an exact text,
// such as floats and structs, are errors, and so is a type that is not known before the call, until the expression
// converts it by string(…) or int(…).
//
// A call whose value is nil, missing or blank has no key; ?? says what stands for the value instead and covers the whole
// path on its left.
//
// In the key, whatever could be taken for something else is written as %XX: the colon, the separators next to the value,
// %, ~, braces, blanks, control and invisible characters, and bytes that are not UTF-8. So the values of two calls of one
// template that differ never make the same key, nor does a value reach into the next level of keys that are built with
// the same separator. Texts are compared byte by byte: é written as one character and as two are different keys. A key
// longer than 200 bytes is cut, and the SHA-256 of the whole appended behind a ~.
//
// The error is a *[KeyError].
func CompileKey(template string, opts ...KeyOption) (*KeyExpr, error) {
	env := keyEnv{fnErr: "no function belongs to this template"}
	for _, opt := range opts {
		if opt != nil {
			opt.applyKey(&env)
		}
	}
	return compileKey(template, env)
}

// String returns the template.
func (k *KeyExpr) String() string { return k.src.text }

// IsList reports whether the template makes several keys, one for each element of a list.
func (k *KeyExpr) IsList() bool { return k.list }

// Render returns the key for one call. args are the values of the variables, in the order they were declared in.
// The error is a *[KeyError]; it matches [ErrKey].
func (k *KeyExpr) Render(ctx context.Context, args ...any) (string, error) {
	if k.list {
		return "", &KeyError{Template: k.src.text, Reason: "the template makes several keys: use RenderAll"}
	}
	pointers, err := k.point(args)
	if err != nil {
		return "", err
	}
	key, _, err := k.render(ctx, pointers)
	return key, err
}

// RenderAll returns the keys for one call, sorted and each of them once. A template without a list makes one.
// The error is a *[KeyError]; it matches [ErrKey].
func (k *KeyExpr) RenderAll(ctx context.Context, args ...any) ([]string, error) {
	pointers, err := k.point(args)
	if err != nil {
		return nil, err
	}
	key, keys, err := k.render(ctx, pointers)
	if err == nil && !k.list {
		keys = []string{key}
	}
	return keys, err
}

// point checks the arguments and returns pointers to copies of them.
func (k *KeyExpr) point(args []any) ([]unsafe.Pointer, error) {
	if len(args) != len(k.env.vars) {
		return nil, &KeyError{Template: k.src.text,
			Reason: fmt.Sprintf("the template takes %d arguments, not %d", len(k.env.vars), len(args))}
	}
	pointers := make([]unsafe.Pointer, len(args))
	for i, arg := range args {
		want := k.env.vars[i].typ
		p := reflect.New(want)
		if v := reflect.ValueOf(arg); v.IsValid() {
			if !v.Type().AssignableTo(want) {
				return nil, &KeyError{Template: k.src.text,
					Reason: fmt.Sprintf("%s is a %s, not a %T", k.env.vars[i].name, typeName(want), arg)}
			}
			p.Elem().Set(v)
		}
		pointers[i] = p.UnsafePointer()
	}
	return pointers, nil
}

// render returns the key of a call, or the keys of a list template. args[i] points at a value of the i-th variable's
// type and must not point into a stack: methods of the value may keep it. See renderArg for callers that have values.
func (k *KeyExpr) render(ctx context.Context, args []unsafe.Pointer) (one string, many []string, err error) {
	if k.direct {
		one, err = k.renderDirect(args)
		return one, nil, err
	}
	call := &keyCall{ctx: ctx, args: args}
	texts := make([]string, len(k.parts))
	var elements []string
	for i := range k.parts {
		part := &k.parts[i]
		v, fault := part.value.run(call)
		if fault == nil {
			if part.list {
				elements, fault = listTexts(v, part.value.name(&part.seg))
			} else {
				texts[i], fault = valueText(v, part.value.name(&part.seg))
			}
		}
		if fault != nil {
			return "", nil, k.src.errorFor(&part.seg, fault)
		}
	}
	if !k.list {
		return k.join(texts, ""), nil, nil
	}
	many = make([]string, len(elements))
	for i, element := range elements {
		many[i] = k.join(texts, element)
	}
	slices.Sort(many)
	many = slices.Compact(many)
	if len(many) > k.maxKeys {
		return "", nil, k.src.errorFor(k.listSegment(), faultBad("the list",
			fmt.Sprintf("makes %d keys, more than the %d allowed", len(many), k.maxKeys)))
	}
	return "", many, nil
}

func (k *KeyExpr) listSegment() *keytmpl.Segment {
	i := slices.IndexFunc(k.parts, func(p keyPart) bool { return p.list })
	return &k.parts[i].seg
}

// listTexts returns the text of every element of a list.
func listTexts(v reflect.Value, what string) ([]string, *faultError) {
	v, fault := deref(v, what)
	if fault != nil {
		return nil, fault
	}
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, faultBad(what, "is no list")
	}
	if v.Len() == 0 {
		return nil, faultGone(what, "is an empty list")
	}
	texts := make([]string, v.Len())
	for i := range texts {
		if texts[i], fault = valueText(v.Index(i), fmt.Sprintf("%s, element %d,", what, i)); fault != nil {
			return nil, fault
		}
	}
	return texts, nil
}

// join puts a key together. element stands for the list, if there is one.
func (k *KeyExpr) join(texts []string, element string) string {
	b := make([]byte, 0, keyenc.MaxLen)
	for i := range k.parts {
		part := &k.parts[i]
		b = append(b, part.literal...)
		text := texts[i]
		if part.list {
			text = element
		}
		b, _ = part.table.Append(b, text)
	}
	return k.text(append(b, k.tail...))
}

// text returns the finished key, shortened if it is too long.
func (k *KeyExpr) text(b []byte) string {
	n := len(k.env.namespace)
	if len(b)-n > keyenc.MaxLen {
		return k.env.namespace + keyenc.Shorten(b[n:])
	}
	return string(b)
}

// renderDirect is render for templates whose values are all read by their offset. It allocates the key and nothing else.
func (k *KeyExpr) renderDirect(args []unsafe.Pointer) (string, error) {
	if len(k.parts) == 0 {
		return k.tail, nil
	}
	var buf [96]byte // so that the most common keys need no other
	b := buf[:0]
	for i := range k.fast {
		part := &k.fast[i]
		b = append(b, part.literal...)
		p := args[part.arg]
		for h := range part.hops {
			if p = *(*unsafe.Pointer)(unsafe.Add(p, part.hops[h].off)); p == nil {
				return "", k.src.errorFor(&k.parts[i].seg, faultGone(part.hops[h].text, "is nil"))
			}
		}
		p = unsafe.Add(p, part.off)
		if part.kind != reflect.String {
			b = part.append(b, p)
			continue
		}
		var visible bool
		if b, visible = part.table.Append(b, *(*string)(p)); !visible {
			return "", k.src.errorFor(&k.parts[i].seg, faultGone(part.text, "is blank"))
		}
	}
	if k.tail != "" {
		b = append(b, k.tail...)
	}
	if len(b) > keyenc.MaxLen {
		return k.text(b), nil
	}
	return string(b), nil
}
