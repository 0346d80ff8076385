package latchkey

import (
	"reflect"
	"time"

	"github.com/expr-lang/expr/ast"
)

func (f *folder) foldBinary(n *ast.BinaryNode, m mode) (ast.Node, shape) {
	switch op := n.Operator; op {
	case "??":
		return f.foldCoalesce(n, m)
	case "&&", "and", "||", "or":
		n.Left, _ = f.fold(n.Left, condition)
		n.Right, _ = f.fold(n.Right, condition)
		return n, typed(typeBool)
	case "==", "!=", "<", "<=", ">", ">=":
		return f.foldComparison(n)
	case "in", "contains", "startsWith", "endsWith", "matches":
		var l shape
		n.Left, l = f.fold(n.Left, condition)
		n.Right, _ = f.fold(n.Right, condition)
		if l.anyWide() {
			return n, f.failf(n.Left, wideProblem(l))
		}
		return n, typed(typeBool)
	case "..":
		n.Left = f.foldInt(n.Left)
		n.Right = f.foldInt(n.Right)
		return n, listOf(typed(typeInt))
	default:
		return f.foldArithmetic(n, m)
	}
}

// foldCoalesce makes ?? cover the whole path on its left: a nil on the way, a missing entry, blank text.
func (f *folder) foldCoalesce(n *ast.BinaryNode, m mode) (ast.Node, shape) {
	if !mayBeGone(n.Left) {
		return n, f.fail(n, "the left of ?? is no path and is never nil", "put ?? directly behind the path that may be nil")
	}
	var l, r shape
	n.Left, l = f.fold(n.Left, mode{optional: true, blank: m.blank})
	n.Right, r = f.fold(n.Right, m)
	if l.null {
		return n, r
	}
	return n, either(l, r)
}

// mayBeGone reports whether an expression can stand for nothing.
func mayBeGone(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode, *ast.PointerNode, *ast.NilNode:
		return true
	case *ast.CallNode:
		_, isMethod := n.Callee.(*ast.MemberNode)
		return isMethod
	case *ast.ConditionalNode:
		return mayBeGone(n.Exp1) || mayBeGone(n.Exp2)
	case *ast.BinaryNode:
		return n.Operator == "??"
	case *ast.BuiltinNode:
		return optionalBuiltins[n.Name]
	}
	return false
}

// foldComparison compares exactly: expr would compare a uint64 as an int.
func (f *folder) foldComparison(n *ast.BinaryNode) (ast.Node, shape) {
	_, leftNil := n.Left.(*ast.NilNode)
	_, rightNil := n.Right.(*ast.NilNode)
	m := condition
	m.optional = leftNil || rightNil
	if m.optional && n.Operator != "==" && n.Operator != "!=" {
		return n, f.fail(n, "nil has no order", "")
	}
	var l, r shape
	n.Left, l = f.fold(n.Left, m)
	n.Right, r = f.fold(n.Right, m)
	for _, s := range []shape{l, r} {
		if s.t != nil && textKindOf(s.t) == textEnum && !m.optional {
			return n, f.fail(n, article(typeName(s.t))+" is compared by its name", `write string(…) == "NAME"`)
		}
	}
	exact := l.anyWide() || r.anyWide() || l.unknown() || r.unknown()
	if m.optional || !exact || f.err != nil {
		return n, typed(typeBool)
	}
	if !ordered(l, r) {
		return n, f.fail(n, article(l.String())+" does not compare with "+article(r.String()), "")
	}
	op := n.Operator
	return f.call(n, "compare", typed(typeBool), func(args ...any) (any, error) {
		return exactly(args[0], args[1], op)
	}, n.Left, n.Right), typed(typeBool)
}

func ordered(l, r shape) bool {
	return l.unknown() || r.unknown() || l.all(isNumber) && r.all(isNumber)
}

// exactly compares two values whose types were not known, or which an int can't hold.
func exactly(l, r any, op string) (any, error) {
	c, ok := order(reflect.ValueOf(l), reflect.ValueOf(r))
	if !ok {
		if equality := op == "==" || op == "!="; equality && l != nil && r != nil {
			return (op == "==") == reflect.DeepEqual(l, r), nil
		}
		return nil, faultBad("a comparison", "has two sides that don't compare")
	}
	switch op {
	case "==":
		return c == 0, nil
	case "!=":
		return c != 0, nil
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	default:
		return c >= 0, nil
	}
}

func order(l, r reflect.Value) (int, bool) {
	switch {
	case !l.IsValid() || !r.IsValid():
		return 0, false
	case isInt(l.Type()) && isInt(r.Type()):
		return compareInts(l, r), true
	case isNumber(l.Type()) && isNumber(r.Type()):
		return compare(asFloat(l), asFloat(r)), true
	case l.Kind() == reflect.String && r.Kind() == reflect.String:
		return compare(l.String(), r.String()), true
	case l.Type() == typeTime && r.Type() == typeTime:
		return l.Interface().(time.Time).Compare(r.Interface().(time.Time)), true //nolint:forcetypeassert // just checked
	}
	return 0, false
}

func asFloat(v reflect.Value) float64 { return v.Convert(typeFloat).Float() }

// foldArithmetic knows the results of expr's operators.
func (f *folder) foldArithmetic(n *ast.BinaryNode, m mode) (ast.Node, shape) {
	var l, r shape
	n.Left, l = f.fold(n.Left, mode{blank: m.blank})
	n.Right, r = f.fold(n.Right, mode{blank: m.blank})
	switch {
	case f.err != nil:
		return n, shape{}
	case l.anyWide():
		return n, f.failf(n.Left, wideProblem(l))
	case r.anyWide():
		return n, f.failf(n.Right, wideProblem(r))
	case l.unknown():
		return n, f.failf(n.Left, untypedProblem())
	case r.unknown():
		return n, f.failf(n.Right, untypedProblem())
	}
	is := func(t reflect.Type) func(reflect.Type) bool {
		return func(have reflect.Type) bool { return have == t }
	}
	isFloat := func(t reflect.Type) bool { return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 }
	switch op := n.Operator; {
	case op == "%":
		return n, typed(typeInt)
	case op == "/" || op == "**" || op == "^":
		return n, typed(typeFloat)
	case l.all(is(typeString)) && r.all(is(typeString)):
		return n, typed(typeString)
	case l.all(is(typeTime)) && r.all(is(typeTime)): // only - fits
		return n, typed(typeDuration)
	case l.all(is(typeTime)) || r.all(is(typeTime)):
		return n, typed(typeTime)
	case l.all(is(typeDuration)) || r.all(is(typeDuration)):
		return n, typed(typeDuration)
	case l.all(isInt) && r.all(isInt):
		return n, typed(typeInt)
	case l.all(isNumber) && r.all(isNumber) && (l.all(isFloat) || r.all(isFloat)):
		return n, typed(typeFloat)
	}
	if l.alts == nil && r.alts == nil { // expr's checker has the better words
		return n, shape{}
	}
	return n, f.fail(n, "no "+n.Operator+" for "+l.String()+" and "+r.String(), "convert them first")
}
