package latchkey

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"

	"github.com/latchkey-go/latchkey/internal/keyenc"
)

// chain is a path while it is being resolved.
type chain struct {
	keyPath
	base  ast.Node // what it starts from, if that is no argument and nothing in the context
	shape shape    // what is known of its value so far
}

// startOf begins a chain at a node that is folded already.
func startOf(base ast.Node, s shape, text string) *chain {
	return &chain{keyPath: keyPath{root: -1, text: text}, base: base, shape: s}
}

func (c *chain) name() string {
	text := c.last()
	return text
}

// foldPath folds a path and makes the call that stands for it.
func (f *folder) foldPath(n ast.Node, m mode) (ast.Node, shape) {
	c, done := f.chain(n, m)
	if done || f.err != nil {
		return c.base, c.shape
	}
	return f.emit(n, c, m), c.shape
}

// emit turns a chain into a call.
func (f *folder) emit(at ast.Node, c *chain, m mode) ast.Node {
	p := &c.keyPath
	if c.base != nil {
		return f.call(at, "path", c.shape, func(args ...any) (any, error) {
			return finish(p, reflect.ValueOf(args[0]), m)
		}, c.base)
	}
	env := &ast.IdentifierNode{Value: "$env"} // the VM's environment, which is the keyCall
	node := f.call(at, "path", c.shape, func(args ...any) (any, error) {
		v, fault := p.start(args[0].(*keyCall)) //nolint:forcetypeassert // nothing else is ever the environment
		if fault != nil {
			return nil, fault
		}
		return finish(p, v, m)
	}, env)
	f.paths[node] = p
	return node
}

// finish walks a path in the VM and judges what is at its end.
func finish(p *keyPath, v reflect.Value, m mode) (any, error) {
	v, fault := p.walk(v)
	if fault == nil {
		text := p.last()
		fault = emptyValue(v, text, m)
	}
	switch {
	case fault == nil:
		return boxed(v), nil
	case fault.gone && m.optional:
		return nil, nil
	}
	return nil, fault
}

// emptyValue finds text that is blank, and under ?? also a list without elements.
func emptyValue(v reflect.Value, text string, m mode) *faultError {
	switch textKindOf(v.Type()) {
	case textString:
		if !m.blank && keyenc.IsBlank(v.String()) {
			return faultGone(text, "is blank")
		}
	case textMarshal:
		if m.optional && !m.blank {
			if s, fault := ownText(v, text); fault != nil || keyenc.IsBlank(s) {
				return faultGone(text, "is blank")
			}
		}
	case textList:
		if m.optional && !m.blank && v.Len() == 0 {
			return faultGone(text, "is an empty list")
		}
	}
	return nil
}

// chain resolves a path. done means that the node is complete as it is: it needs no call around it.
func (f *folder) chain(n ast.Node, m mode) (c *chain, done bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return f.root(n)
	case *ast.PointerNode:
		return f.pointer(n)
	case *ast.ChainNode: // a?.b: a path is strict, or ?? says otherwise; a question mark changes neither
		return f.chain(n.Node, m)
	case *ast.MemberNode:
		if id, ok := n.Node.(*ast.IdentifierNode); ok && id.Value == rootCtx {
			return f.fromCtx(n), false
		}
		text := sourceText(n.Node)
		if c, done = f.chain(n.Node, m); done {
			c = startOf(c.base, c.shape, text)
		}
		if f.err == nil {
			c = f.member(n, c, m)
		}
		return c, false
	case *ast.CallNode:
		return f.method(n, m)
	}
	text := sourceText(n)
	folded, s := f.fold(n, m)
	return startOf(folded, s, text), true
}

// root starts a path from a name.
func (f *folder) root(n *ast.IdentifierNode) (c *chain, done bool) {
	for _, let := range slices.Backward(f.lets) {
		if let.name == n.Value {
			return startOf(n, let.shape, n.Value), false
		}
	}
	if i := f.env.varIndex(n.Value); i >= 0 {
		t := f.env.vars[i].typ
		return &chain{keyPath: keyPath{root: i, typ: t, text: n.Value}, shape: typed(t)}, false
	}
	if self, ok := f.env.self(); ok && n.Value != rootFn && n.Value != rootCtx {
		c, p := f.fromSelf(self, n.Value)
		if p == nil {
			return c, false
		}
		f.failf(n, p)
		return &chain{base: n}, true
	}
	switch {
	case n.Value == rootFn && f.env.fnName != "":
		name := &ast.StringNode{Value: f.env.fnName}
		name.SetLocation(n.Location())
		return &chain{base: name, shape: typed(typeString)}, true
	case n.Value == rootFn:
		f.fail(n, "fn has no name to stand for: "+f.env.fnErr, "")
	case n.Value == rootCtx:
		f.fail(n, "ctx is no value of its own", f.ctxHint(""))
	default:
		f.fail(n, "unknown name "+n.Value, f.rootHint(n.Value))
	}
	return &chain{base: n}, true
}

// fromCtx starts a path from a value of the context.
func (f *folder) fromCtx(n *ast.MemberNode) *chain {
	name := "?"
	if prop, ok := n.Property.(*ast.StringNode); ok {
		name = prop.Value
	}
	v, ok := f.env.ctxVars[name]
	if !ok {
		f.fail(n, "no value of the context is called "+name, f.ctxHint(name))
	}
	return &chain{keyPath: keyPath{root: -1, ctx: &v, typ: v.typ, text: rootCtx + "." + name}, shape: typed(v.typ)}
}

func (f *folder) rootHint(name string) string {
	names := f.env.roots()
	for _, l := range f.lets {
		names = append(names, l.name)
	}
	if hint := nearest(name, names); hint != "" {
		return hint
	}
	if f.env.unnamed {
		return `name the arguments with Params("…", "…")`
	}
	if len(names) == 1 {
		return "the only name here is " + names[0]
	}
	return ""
}

func (f *folder) ctxHint(name string) string {
	var names []string
	for n := range f.env.ctxVars {
		names = append(names, n)
	}
	if len(names) == 0 {
		return "register an extractor with CtxVar, then write ctx.<name>"
	}
	return nearest(name, names)
}

// pointer starts a path from #, or from .x, in a predicate.
func (f *folder) pointer(n *ast.PointerNode) (c *chain, done bool) {
	if len(f.scopes) == 0 {
		f.fail(n, "# has a meaning in a predicate only", "")
		return &chain{base: n}, true
	}
	scope := f.scopes[len(f.scopes)-1]
	switch n.Name {
	case "":
		return startOf(n, scope.elem, "#"), false
	case "index":
		return &chain{base: n, shape: typed(typeInt)}, true
	case "acc":
		return &chain{base: n, shape: scope.acc}, true
	}
	f.fail(n, "unknown pointer #"+n.Name, "")
	return &chain{base: n}, true
}

// member adds a member to a path.
func (f *folder) member(n *ast.MemberNode, c *chain, m mode) *chain {
	switch prop := n.Property.(type) {
	case *ast.StringNode:
		return f.named(n, c, prop.Value)
	case *ast.IntegerNode:
		if _, isList := f.listStep(c); isList {
			return f.element(c, prop.Value)
		}
	}
	return f.index(n, c, m)
}

// named adds a member by its name.
func (f *folder) named(n *ast.MemberNode, c *chain, name string) *chain {
	t, ok := f.single(n, c)
	if !ok {
		return c
	}
	var found member
	var p *problem
	switch of := c.shape.of; {
	case of != nil && t.Kind() == reflect.Struct:
		found, p = described(of, name)
	default:
		found, p = findMember(t, name)
		found.of = of
	}
	if p != nil {
		f.failf(n.Property, p)
		return c
	}
	return c.with(found, c.name()+"."+name)
}

// single returns the one type that a path has so far, without pointers.
func (f *folder) single(n ast.Node, c *chain) (reflect.Type, bool) {
	if c.shape.unknown() && c.shape.alts == nil && c.shape.t == nil {
		return typeAny, true
	}
	var only reflect.Type
	same := true
	c.shape.each(func(alt shape) {
		switch {
		case alt.null: // is found when the path is walked
		case alt.t == nil:
			same = false
		case only == nil:
			only = derefType(alt.t)
		default:
			same = same && only == derefType(alt.t)
		}
	})
	if !same || only == nil {
		f.fail(n, article(c.shape.String())+" has no members", "")
		return nil, false
	}
	return only, true
}

// with returns the path with one more step.
func (c *chain) with(found member, text string) *chain {
	c.steps = append(c.steps, pathStep{member: found, text: text})
	c.shape = typed(found.typ).describedBy(found.of)
	return c
}

func (f *folder) listStep(c *chain) (shape, bool) {
	if c.shape.unknown() {
		return shape{}, false
	}
	return c.shape.element()
}

// element adds a position in a list.
func (f *folder) element(c *chain, i int) *chain {
	elem, _ := c.shape.element()
	at := member{kind: memberElement, key: reflect.ValueOf(i), typ: elem.vmType()}
	if elem.t != nil {
		at.typ = elem.t
	}
	c = c.with(at, c.name()+"["+strconv.Itoa(i)+"]")
	c.shape = elem
	return c
}

// sourceText is how a node is named in faults.
func sourceText(n ast.Node) string {
	const most = 40
	text := n.String()
	if len(text) > most {
		return "the expression"
	}
	return text
}
