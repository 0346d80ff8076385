package latchkey

import (
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
)

// folder rewrites the syntax tree of an expression before expr compiles it. Every path becomes a call of a function of
// ours, which resolves members by our rules and is strict: expr itself would read a missing map entry as a zero value
// and print a nil as "<nil>". Alongside it finds the shape of every node.
//
// expr's own visitors see a tree from the leaves up and without scopes, so that the type of # or of a let variable is
// not there when a member of it has to be resolved; hence the walk from the root here.
type folder struct {
	src    source
	offset int // of the expression in the source
	text   string
	env    *keyEnv
	config *conf.Config

	scopes []predicateScope
	lets   []letVar
	paths  map[ast.Node]*keyPath // the calls that stand for a whole path over the arguments
	err    *KeyError             // the first one
}

// predicateScope is what # and #acc mean in a predicate.
type predicateScope struct{ elem, acc shape }

type letVar struct {
	name  string
	shape shape
}

// mode is how the place that a value is used in takes one that is not there.
type mode struct {
	optional bool // nil stands for it: the left of ??, a comparison with nil
	blank    bool // empty text is a value: in conditions, where it does not become part of a key
}

var (
	strict    = mode{}
	condition = mode{blank: true}
)

func (f *folder) fail(n ast.Node, reason, hint string) shape {
	if f.err == nil {
		f.err = f.src.errorAt(f.position(n.Location()), reason, hint)
	}
	return shape{}
}

func (f *folder) failf(n ast.Node, p *problem) shape { return f.fail(n, p.reason, p.hint) }

// position turns a place in the expression, which expr counts in runes, into an offset in the template.
func (f *folder) position(loc file.Location) int {
	at := 0
	for i := 0; i < loc.From && at < len(f.text); i++ {
		_, size := utf8.DecodeRuneInString(f.text[at:])
		at += size
	}
	return f.offset + at
}

// call makes a node that calls fn, and tells expr's checker the type of its result.
func (f *folder) call(at ast.Node, name string, result shape, fn func(args ...any) (any, error), args ...ast.Node) ast.Node {
	name = fmt.Sprintf("%s#%d", name, len(f.config.Functions)) // no name that a user could write
	in := make([]reflect.Type, len(args))
	for i := range in {
		in[i] = typeAny
	}
	f.config.Functions[name] = &builtin.Function{
		Name: name, Func: fn,
		Types: []reflect.Type{reflect.FuncOf(in, []reflect.Type{result.vmType()}, false)},
	}
	node := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
	node.SetLocation(at.Location())
	node.Callee.SetLocation(at.Location())
	return node
}

// fold rewrites n and returns it with its shape.
func (f *folder) fold(n ast.Node, m mode) (ast.Node, shape) {
	if f.err != nil || n == nil {
		return n, shape{}
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return n, shape{null: true}
	case *ast.IntegerNode:
		return n, typed(typeInt)
	case *ast.FloatNode:
		return n, typed(typeFloat)
	case *ast.BoolNode:
		return n, typed(typeBool)
	case *ast.StringNode:
		return n, typed(typeString)
	case *ast.BytesNode:
		return n, typed(typeBytes)
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode, *ast.PointerNode, *ast.CallNode:
		return f.foldPath(n, m)
	case *ast.UnaryNode:
		return f.foldUnary(n, m)
	case *ast.BinaryNode:
		return f.foldBinary(n, m)
	case *ast.BuiltinNode:
		return f.foldBuiltin(n, m)
	case *ast.SliceNode:
		var s shape
		n.Node, s = f.fold(n.Node, mode{blank: m.blank})
		n.From = f.foldInt(n.From)
		n.To = f.foldInt(n.To)
		return n, s
	case *ast.ConditionalNode:
		n.Cond, _ = f.fold(n.Cond, condition)
		var a, b shape
		n.Exp1, a = f.fold(n.Exp1, m)
		n.Exp2, b = f.fold(n.Exp2, m)
		return n, either(a, b)
	case *ast.VariableDeclaratorNode:
		return f.foldLet(n, m)
	case *ast.SequenceNode:
		var s shape
		for i := range n.Nodes {
			n.Nodes[i], s = f.fold(n.Nodes[i], m)
		}
		return n, s
	case *ast.ArrayNode:
		elem := shape{null: true}
		for i := range n.Nodes {
			var s shape
			n.Nodes[i], s = f.fold(n.Nodes[i], mode{blank: m.blank})
			if i == 0 {
				elem = s
			} else {
				elem = either(elem, s)
			}
		}
		return n, listOf(elem)
	case *ast.MapNode:
		for _, pair := range n.Pairs {
			if pair, ok := pair.(*ast.PairNode); ok {
				pair.Key, _ = f.fold(pair.Key, strict)
				pair.Value, _ = f.fold(pair.Value, mode{blank: m.blank})
			}
		}
		return n, typed(reflect.TypeFor[map[string]any]())
	}
	return n, f.fail(n, fmt.Sprintf("%T is not supported in a key", n), "")
}

// foldInt folds a position in a list or text; n may be nil.
func (f *folder) foldInt(n ast.Node) ast.Node {
	if n == nil {
		return nil
	}
	n, s := f.fold(n, strict)
	if s.anyWide() {
		f.failf(n, wideProblem(s))
	}
	return n
}

func (f *folder) foldLet(n *ast.VariableDeclaratorNode, m mode) (ast.Node, shape) {
	if f.env.varIndex(n.Name) >= 0 || n.Name == rootFn || n.Name == rootCtx {
		return n, f.fail(n, "let can't give "+n.Name+" another meaning", "choose another name")
	}
	var s shape
	// The variable may hold nothing: wherever it is used it is a path again, which is judged there.
	n.Value, s = f.fold(n.Value, mode{optional: true, blank: true})
	f.lets = append(f.lets, letVar{n.Name, s})
	n.Expr, s = f.fold(n.Expr, m)
	f.lets = f.lets[:len(f.lets)-1]
	return n, s
}

func (f *folder) foldUnary(n *ast.UnaryNode, m mode) (ast.Node, shape) {
	var s shape
	if n.Operator == "!" || n.Operator == "not" {
		n.Node, _ = f.fold(n.Node, condition)
		return n, typed(typeBool)
	}
	n.Node, s = f.fold(n.Node, mode{blank: m.blank})
	if s.anyWide() {
		return n, f.failf(n, wideProblem(s))
	}
	return n, s
}

func wideProblem(s shape) *problem {
	return &problem{
		reason: "no arithmetic with " + s.String() + ": large values would change",
		hint:   "convert it with int(…), which fails for what an int can't hold",
	}
}

func untypedProblem() *problem {
	return &problem{
		reason: "the type of an operand is not known before the call",
		hint:   "convert it: int(…) or string(…)",
	}
}

// foldList folds what a predicate or a list function works on.
func (f *folder) foldList(n ast.Node, m mode) (ast.Node, shape) {
	folded, s := f.fold(n, mode{blank: m.blank})
	elem, ok := s.element()
	if !ok && f.err == nil {
		return folded, f.fail(n, article(s.String())+" is no list", "")
	}
	return folded, elem
}
