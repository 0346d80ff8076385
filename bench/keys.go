package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

type (
	keyUser  struct{ Name string }
	keyOwner struct{ User *keyUser }
	keyParam struct {
		ID    int64
		Name  string
		Owner keyOwner
	}
)

// keyShape is one way to find a key's value in an argument. The namespace is that of latchkey's keys.
type keyShape struct {
	name     string
	template string
	direct   bool // read without the expression VM: has a target
}

var keyShapes = []keyShape{
	{"int64 field", "order:#{param.id}", true},
	{"string field", "order:#{param.name}", true},
	{"pointer, int64", "order:#{param.id}", true},
	{"pointer, nested", "order:#{param.owner.user.name}", true},
	{"two fields", "order:#{param.id}:#{param.name}", true},
	{"expression", "order:#{param.id + 1}", false},
}

// keys measures how long it takes to make a key. No public function does just that for a decorated function, so what is
// measured is the call of a function whose Locks are closed: it renders the key, then is refused. The same with a template
// that has no value is subtracted.
func keys(env testenv.TB, c config, r *report) {
	r.titlef("keys, %s: making a key from the arguments", oneCore().name)
	r.notef("lower quartile of samples of %v, the fastest and the upper quartile in parentheses", sampleFor)
	r.notef("latchkey: a decorated call that is refused, less the same call without a value in its template")
	all := measureLocal(env, c, "keys")
	rows := make([]string, len(keyShapes))
	ratios, allocs := make([]float64, len(keyShapes)), make([]float64, len(keyShapes))
	for i, shape := range keyShapes {
		closure, sprintf := all[shape.name+"/closure"], all[shape.name+"/Sprintf"]
		full, empty := all[shape.name+"/latchkey"], all[shape.name+"/empty"]
		nanos := full.undisturbed() - empty.undisturbed()
		ratios[i] = nanos / closure.undisturbed()
		allocs[i] = math.Round(full.allocs.median() - empty.allocs.median())
		rows[i] = fmt.Sprintf("%s\t%s\t%s\t%.0f = %.0f - %.0f\t%.2f\t%.0f\t%s\t%.0f", shape.name, shape.template, closure.print(),
			nanos, full.undisturbed(), empty.undisturbed(), ratios[i], allocs[i], sprintf.print(), sprintf.allocs.median())
	}
	r.table("shape\ttemplate\tclosure, ns\tlatchkey, ns\t× closure\tallocs\tSprintf, ns\tallocs", rows)
	for i, shape := range keyShapes {
		if shape.direct {
			r.atMost("keys, "+shape.name+" × closure", series{ratios[i]}, 2)
			r.atMost("keys, "+shape.name+", allocations", series{allocs[i]}, 1)
		}
	}
}

// keyOps are the four ways to a key of one shape. The sink keeps the compiler from leaving the work out.
func keyOps[A any](ops map[string]func(), locks *latchkey.Locks, shape keyShape, arg A, closure, sprintf func(A) string) {
	ctx := context.Background()
	refused := func(template string) func() {
		f := latchkey.Func(locks.WithLock(template), func(context.Context, A) (struct{}, error) { return struct{}{}, nil })
		return func() {
			if _, err := f(ctx, arg); !errors.Is(err, latchkey.ErrStore) {
				panic(fmt.Sprint("closed Locks answered: ", err))
			}
		}
	}
	ops[shape.name+"/closure"] = func() { sink = closure(arg) }
	ops[shape.name+"/Sprintf"] = func() { sink = sprintf(arg) }
	ops[shape.name+"/latchkey"] = refused(shape.template)
	ops[shape.name+"/empty"] = refused("order")
}

var sink string

func keysLoad(job) (func(turn) (any, error), error) {
	locks := latchkey.New(memstore.New())
	locks.Close()
	var names []string
	for _, shape := range keyShapes {
		for _, way := range []string{"/closure", "/latchkey", "/empty", "/Sprintf"} {
			names = append(names, shape.name+way)
		}
	}
	const prefix = "latchkey:order:"
	p := keyParam{ID: 4711004711, Name: "b2f7c9d04e615a38", Owner: keyOwner{&keyUser{"0123456789abcdef"}}}
	ops := make(map[string]func())
	keyOps(ops, locks, keyShapes[0], p, func(p keyParam) string {
		var b [64]byte
		return string(strconv.AppendInt(append(b[:0], prefix...), p.ID, 10))
	}, func(p keyParam) string { return fmt.Sprintf("latchkey:order:%d", p.ID) })
	keyOps(ops, locks, keyShapes[1], p, func(p keyParam) string {
		return prefix + p.Name
	}, func(p keyParam) string { return fmt.Sprintf("latchkey:order:%s", p.Name) })
	keyOps(ops, locks, keyShapes[2], &p, func(p *keyParam) string {
		var b [64]byte
		return string(strconv.AppendInt(append(b[:0], prefix...), p.ID, 10))
	}, func(p *keyParam) string { return fmt.Sprintf("latchkey:order:%d", p.ID) })
	keyOps(ops, locks, keyShapes[3], &p, func(p *keyParam) string {
		if p == nil || p.Owner.User == nil {
			return ""
		}
		return prefix + p.Owner.User.Name
	}, func(p *keyParam) string { return fmt.Sprintf("latchkey:order:%s", p.Owner.User.Name) })
	keyOps(ops, locks, keyShapes[4], p, func(p keyParam) string {
		var b [64]byte
		return string(append(append(strconv.AppendInt(append(b[:0], prefix...), p.ID, 10), ':'), p.Name...))
	}, func(p keyParam) string { return fmt.Sprintf("latchkey:order:%d:%s", p.ID, p.Name) })
	keyOps(ops, locks, keyShapes[5], p, func(p keyParam) string {
		var b [64]byte
		return string(strconv.AppendInt(append(b[:0], prefix...), p.ID+1, 10))
	}, func(p keyParam) string { return fmt.Sprintf("latchkey:order:%d", p.ID+1) })
	act := timings(names, ops)
	return func(t turn) (any, error) {
		results, err := act(t)
		if sink == "" {
			return nil, errors.New("no key was made")
		}
		return results, err
	}, nil
}
