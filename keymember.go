package latchkey

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// member is one step of a path, resolved against the type it starts from.
type member struct {
	kind  memberKind
	name  string        // Go's name for it
	index []int         // of a field, through embedded structs
	nth   int           // of a method in the method set of a pointer; negative for a method of an interface
	key   reflect.Value // of a map
	typ   reflect.Type  // what it yields
	of    Members       // describes what it yields, nil if Go's type does
	get   func(any) (any, error)
}

type memberKind uint8

const (
	memberField memberKind = iota
	memberMethod
	memberMapKey
	memberLookup    // by KeyMember
	memberElement   // of a list, by position
	memberDynamic   // of a type that shows at run time
	memberDescribed // by Members
)

// problem is why a member can't be resolved.
type problem struct{ reason, hint string }

func problemf(format string, args ...any) *problem {
	return &problem{reason: fmt.Sprintf(format, args...)}
}

// findMember resolves name on t, which is no pointer. The order is: Go's name; the name in a json, db or protobuf tag;
// either in other case; a getter. Within one of these, fields of embedded structs count less the deeper they are, as in
// Go. Two candidates of equal rank are an error: nobody could tell which one locks.
func findMember(t reflect.Type, name string) (member, *problem) {
	if typ, ok := lookupType(t); ok {
		return member{kind: memberLookup, name: name, key: reflect.ValueOf(name), typ: typ}, nil
	}
	switch {
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		return member{kind: memberDynamic, name: name, typ: typeAny}, nil
	case t.Kind() == reflect.Map:
		if t.Key() == typeAny {
			return member{kind: memberMapKey, name: name, key: reflect.ValueOf(name), typ: t.Elem()}, nil
		}
		if t.Key().Kind() != reflect.String {
			return member{}, problemf("%s has no key %s: its keys are of type %s", typeName(t), quote(name), t.Key())
		}
		key := reflect.ValueOf(name).Convert(t.Key())
		return member{kind: memberMapKey, name: name, key: key, typ: t.Elem()}, nil
	}
	if t == typeTime && (name == "String" || name == "GoString" || name == "Local") {
		return member{}, &problem{
			reason: name + " of a time differs from process to process",
			hint:   "leave it out: a time is written in UTC, to the nanosecond",
		}
	}
	cands := candidatesOf(t)
	for _, rank := range ranks {
		if best := cands.best(rank, name); len(best) == 1 {
			return best[0].member(), nil
		} else if len(best) > 1 {
			return member{}, &problem{
				reason: fmt.Sprintf("%s can mean %s or %s of %s", quote(name), best[0].path, best[1].path, typeName(t)),
				hint:   "write the exact Go name, with the embedded struct's in front if both are called the same",
			}
		}
	}
	return member{}, cands.unknown(t, name)
}

// lookupType returns the type of the members that t looks up itself.
func lookupType(t reflect.Type) (reflect.Type, bool) {
	m, ok := methodOf(t, "KeyMember")
	if !ok {
		return nil, false
	}
	in := 0
	if t.Kind() != reflect.Interface {
		in = 1
	}
	if m.Type.NumIn() != in+1 || m.Type.In(in) != typeString || m.Type.NumOut() != 2 || m.Type.Out(1) != typeBool {
		return nil, false
	}
	return m.Type.Out(0), true
}

// methodOf finds a method by its exact name, of t or of a pointer to it.
func methodOf(t reflect.Type, name string) (reflect.Method, bool) {
	if t.Kind() != reflect.Interface {
		t = reflect.PointerTo(t)
	}
	return t.MethodByName(name)
}

// candidate is a field or method that a name can mean.
type candidate struct {
	name   string
	tags   []string
	path   string // how Go would write it
	depth  int
	index  []int
	nth    int
	method bool
	hidden bool // unexported: known only to be named in errors
	args   bool // a method that takes arguments, or returns nothing usable
	typ    reflect.Type
}

type candidates []candidate

func candidatesOf(t reflect.Type) candidates {
	var cs candidates
	if t.Kind() == reflect.Struct {
		cs = fieldsOf(cs, t, nil, "", map[reflect.Type]bool{})
	}
	return methodsOf(cs, t)
}

// fieldsOf appends the fields of t and of the structs embedded in it.
func fieldsOf(cs candidates, t reflect.Type, index []int, path string, seen map[reflect.Type]bool) candidates {
	if seen[t] {
		return cs
	}
	seen[t] = true
	defer delete(seen, t)
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clip(index), i) // a copy: siblings share the front
		cs = append(cs, candidate{
			name: f.Name, tags: tagNames(f.Tag), path: path + f.Name, depth: len(index), index: at,
			hidden: !f.IsExported(), typ: f.Type,
		})
		if embedded := derefType(f.Type); f.Anonymous && embedded.Kind() == reflect.Struct {
			cs = fieldsOf(cs, embedded, at, path+f.Name+".", seen)
		}
	}
	return cs
}

func methodsOf(cs candidates, t reflect.Type) candidates {
	receiver := 0
	if t.Kind() != reflect.Interface {
		t = reflect.PointerTo(t)
		receiver = 1
	}
	for i := range t.NumMethod() {
		m := t.Method(i)
		if !m.IsExported() {
			continue
		}
		c := candidate{name: m.Name, path: m.Name + "()", nth: i, method: true}
		if receiver == 0 {
			c.nth = -1 // its place among the methods of the value that is in the interface is not known yet
		}
		if c.typ = resultOf(m.Type); c.typ == nil || m.Type.NumIn() != receiver {
			c.args, c.path = true, m.Name
		}
		cs = append(cs, c)
	}
	return cs
}

// resultOf returns what a method yields: one value, or a value and an error. Nil means nothing usable.
func resultOf(f reflect.Type) reflect.Type {
	if n := f.NumOut(); n == 1 || n == 2 && f.Out(1) == typeError {
		return f.Out(0)
	}
	return nil
}

// tagNames returns the names that a field's tags give it.
func tagNames(tag reflect.StructTag) []string {
	var names []string
	for _, key := range []string{"json", "db"} {
		if name, _, _ := strings.Cut(tag.Get(key), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	for part := range strings.SplitSeq(tag.Get("protobuf"), ",") {
		for _, key := range []string{"name=", "json="} {
			if name, ok := strings.CutPrefix(part, key); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// ranks are the ways a name can mean a candidate, the strongest first.
var ranks = []func(c *candidate, name string) bool{
	func(c *candidate, name string) bool { return c.name == name },
	func(c *candidate, name string) bool { return c.tagged(func(tag string) bool { return tag == name }) },
	func(c *candidate, name string) bool {
		same := func(s string) bool { return strings.EqualFold(s, name) }
		return same(c.name) || c.tagged(same)
	},
	func(c *candidate, name string) bool { return c.method && c.name == "Get"+name },
	func(c *candidate, name string) bool { return c.method && strings.EqualFold(c.name, "Get"+name) },
}

func (c *candidate) tagged(is func(string) bool) bool {
	return slices.ContainsFunc(c.tags, is)
}

// best returns the usable candidates of one rank, the shallowest only.
func (cs candidates) best(rank func(*candidate, string) bool, name string) []candidate {
	var best []candidate
	for i := range cs {
		c := &cs[i]
		switch {
		case c.hidden || c.args || !rank(c, name):
		case len(best) > 0 && c.depth > best[0].depth:
		case len(best) > 0 && c.depth == best[0].depth:
			best = append(best, *c)
		default:
			best = append(best[:0], *c)
		}
	}
	return best
}

func (c *candidate) member() member {
	if !c.method {
		return member{kind: memberField, name: c.name, index: c.index, typ: c.typ}
	}
	return member{kind: memberMethod, name: c.name, nth: c.nth, typ: c.typ}
}

// unknown explains that t has no member of that name.
func (cs candidates) unknown(t reflect.Type, name string) *problem {
	var names []string
	for i := range cs {
		c := &cs[i]
		switch same := strings.EqualFold(c.name, name); {
		case same && c.hidden:
			return &problem{
				reason: fmt.Sprintf("%s of %s is unexported", c.path, typeName(t)),
				hint:   "export the field, or add a method that returns it",
			}
		case same && c.args && c.typ == nil:
			return problemf("the method %s of %s returns no single value", c.path, typeName(t))
		case same && c.args:
			return &problem{
				reason: fmt.Sprintf("the method %s of %s takes arguments", c.path, typeName(t)),
				hint:   "call it with them: " + c.path + "(…)",
			}
		case !c.hidden && !c.args:
			names = append(names, append([]string{c.name}, c.tags...)...)
		}
	}
	p := problemf("%s has no member %s", typeName(t), quote(name))
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		p.hint = fmt.Sprintf("it is a list: write map(…, .%s) for one key per element, or [0] for one of them", name)
	default:
		p.hint = nearest(name, names)
	}
	return p
}
