package locktest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestAssertHeld(t *testing.T) {
	locks := latchkey.New(memstore.New())
	outer, err := locks.Acquire(t.Context(), "outer")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := locks.Acquire(outer.Context(), "inner")
	if err != nil {
		t.Fatal(err)
	}
	ctx := inner.Context()
	locktest.AssertHeld(t, ctx, "outer")
	locktest.AssertHeld(t, ctx, "inner")

	var spy tattle
	refused := []bool{
		locktest.AssertHeld(&spy, ctx, "another"),
		locktest.AssertHeld(&spy, outer.Context(), "inner"),
		locktest.AssertHeld(&spy, t.Context(), "outer"),
	}
	if err := inner.Release(ctx); err != nil {
		t.Error(err)
	}
	refused = append(refused, locktest.AssertHeld(&spy, ctx, "inner"))
	if slices.Contains(refused, true) || len(spy.said) != 4 {
		t.Errorf("answers %t, complaints %q; want four", refused, spy.said)
	}
	if err := outer.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestRecorder(t *testing.T) {
	rec := locktest.NewRecorder(memstore.New())
	locks := latchkey.New(rec)
	work := latchkey.Action(locks.WithLock("order:#{param}"), func(context.Context, int) error { return nil })
	for _, id := range []int{1, 2, 1} {
		if err := work(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"latchkey:order:1", "latchkey:order:2", "latchkey:order:1"}
	if !slices.Equal(rec.Locked(), want) || !slices.Equal(rec.Released(), want) || len(rec.Ops()) != 6 {
		t.Errorf("locked %q, released %q in %d operations", rec.Locked(), rec.Released(), len(rec.Ops()))
	}
	rec.Forget()
	down := errors.New("down")
	rec.FailWith(func(op latchkey.Op) error {
		if op.Kind == latchkey.OpAcquire {
			return down
		}
		return nil
	})
	if err := work(t.Context(), 3); !errors.Is(err, latchkey.ErrStore) || !errors.Is(err, down) || len(rec.Locked()) != 0 {
		t.Errorf("err = %v, locked %q; want ErrStore and nothing", err, rec.Locked())
	}
	rec.FailWith(nil)
	if err := work(t.Context(), 3); err != nil {
		t.Error(err)
	}
	locks.Close()
}
