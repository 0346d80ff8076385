package latchkey

import (
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/latchkey-go/latchkey/internal/keytmpl"
)

// compiled is an expression in the cheapest form that it has.
type compiled struct {
	shape   shape
	text    string      // a constant
	isConst bool        //
	path    *keyPath    // a path over the arguments or the context
	program *vm.Program // anything else
}

// compileExpr compiles one expression. offset is where it stands in src.
func compileExpr(src source, offset int, text string, env *keyEnv, pathOnly bool, m mode) (*compiled, *KeyError) {
	config := conf.CreateNew()
	config.Optimize = false // rewrites calls of builtins that have been replaced here
	config.WithEnv(map[string]any{})
	f := &folder{src: src, offset: offset, text: text, env: env, config: config, paths: map[ast.Node]*keyPath{}}

	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, f.translate(err)
	}
	if pathOnly && !isPathNode(tree.Node) {
		return nil, src.errorAt(offset, "#<…> takes a member path only", "write #{…} for any other expression")
	}
	node, s := f.fold(tree.Node, m)
	if f.err != nil {
		return nil, f.err
	}
	c := &compiled{shape: s}
	switch n := node.(type) {
	case *ast.StringNode:
		c.text, c.isConst = n.Value, true
		return c, nil
	case *ast.IntegerNode:
		c.text, c.isConst = strconv.Itoa(n.Value), true
		return c, nil
	}
	if p, ok := f.paths[node]; ok && m == strict {
		c.path = p
		return c, nil
	}
	tree.Node = node
	if _, err := checker.Check(tree, config); err != nil {
		return nil, f.translate(err)
	}
	if c.program, err = compiler.Compile(tree, config); err != nil {
		return nil, src.errorAt(offset, "the expression can't be compiled", "")
	}
	return c, nil
}

// translate puts an error of expr into the template.
func (f *folder) translate(err error) *KeyError {
	var at *file.Error
	if !errors.As(err, &at) {
		return f.src.errorAt(f.offset, err.Error(), "")
	}
	hint := ""
	if strings.Contains(at.Message, "??") {
		hint = "put parentheses around a ?? b"
	}
	reason := exprToken.ReplaceAllString(at.Message, `unexpected "$1"`)
	if strings.HasPrefix(reason, "unexpected token EOF") {
		reason = "the expression ends too early"
	}
	return f.src.errorAt(f.position(at.Location), reason, hint)
}

// exprToken is how expr's parser names a token: by its kind, which means nothing to a user.
var exprToken = regexp.MustCompile(`unexpected token \w+\("(.*)"\)`)

// isPathNode reports whether an expression is a plain path: names, and constant keys and positions.
func isPathNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return true
	case *ast.MemberNode:
		switch n.Property.(type) {
		case *ast.StringNode, *ast.IntegerNode:
			return !n.Optional && isPathNode(n.Node)
		}
	}
	return false
}

// run evaluates the expression for one call.
func (c *compiled) run(call *keyCall) (reflect.Value, *faultError) {
	switch {
	case c.isConst:
		return reflect.ValueOf(c.text), nil
	case c.path != nil:
		v, fault := c.path.start(call)
		if fault == nil {
			v, fault = c.path.walk(v)
		}
		return v, fault
	}
	machine := machines.Get().(*vm.VM) //nolint:forcetypeassert // nothing else is in the pool
	out, err := machine.Run(c.program, call)
	release(machine)
	if err == nil {
		return reflect.ValueOf(out), nil
	}
	if fault, ok := errors.AsType[*faultError](err); ok {
		return reflect.Value{}, fault
	}
	// What expr says may quote a value: int("secret").
	return reflect.Value{}, faultBad("the expression", "can't be evaluated for these arguments")
}

// name is how faults call the value of the whole expression.
func (c *compiled) name(seg *keytmpl.Segment) string {
	if c.path != nil {
		text := c.path.last()
		return text
	}
	return strings.TrimSpace(seg.Text)
}
