package latchkey

import (
	"context"
	"reflect"
	"strings"
	"unsafe"

	"github.com/latchkey-go/latchkey/internal/keytmpl"
)

// condExpr is a compiled condition: a boolean expression over the same variables as a template. It is immutable and
// safe for concurrent use.
type condExpr struct {
	src   source
	seg   keytmpl.Segment
	value *compiled
}

// compileCond compiles a condition. The error is a *KeyError.
func compileCond(expr string, env keyEnv) (*condExpr, error) {
	c := &condExpr{src: source{text: expr, condition: true}}
	c.seg = keytmpl.Segment{Kind: keytmpl.Expr, Text: expr, End: len(expr)}
	if err := env.check(c.src); err != nil {
		return nil, err
	}
	if strings.TrimSpace(expr) == "" {
		return nil, c.src.errorAt(0, "the condition is empty", "")
	}
	if err := c.src.tooLong(); err != nil {
		return nil, err
	}
	value, err := compileExpr(c.src, 0, expr, &env, false, condition)
	if err != nil {
		return nil, err
	}
	if value.shape.unknown() {
		return nil, c.src.errorAt(0, "the type of this is not known before the call", "compare it: … == true")
	}
	if !value.shape.all(func(t reflect.Type) bool { return t == typeBool }) {
		return nil, c.src.errorAt(0, "a condition is true or false, this is "+article(value.shape.String()), "")
	}
	c.value = value
	return c, nil
}

// eval decides the condition for one call; args are as in render. What is nil on a path makes it undecided, unless the
// condition itself says otherwise, by ?? or by comparing with nil.
func (c *condExpr) eval(ctx context.Context, args []unsafe.Pointer) (bool, error) {
	v, fault := c.value.run(&keyCall{ctx: ctx, args: args})
	switch {
	case fault != nil:
		return false, c.src.errorFor(&c.seg, fault)
	case v.Kind() != reflect.Bool:
		return false, c.src.errorFor(&c.seg, faultBad("the condition", "is neither true nor false"))
	}
	return v.Bool(), nil
}
