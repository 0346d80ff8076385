package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

type purchase struct {
	ID    string
	Qty   int
	Items []string
}

// shop is a service with one method of each form.
type shop struct {
	t     *testing.T
	locks *latchkey.Locks
	want  []string // keys that must be held inside
	calls int
}

func (s *shop) inside(ctx context.Context) {
	s.t.Helper()
	s.calls++
	for _, key := range s.want {
		if !s.locks.Held(ctx, key) {
			s.t.Errorf("%s is not held inside the function", key)
		}
	}
}

func (s *shop) Func0(ctx context.Context) (int, error) { s.inside(ctx); return 1, nil }
func (s *shop) Func(ctx context.Context, o purchase) (int, error) {
	s.inside(ctx)
	return o.Qty, nil
}
func (s *shop) Func2(ctx context.Context, o purchase, n int) (int, error) {
	s.inside(ctx)
	return o.Qty + n, nil
}
func (s *shop) Func3(ctx context.Context, o *purchase, n int, _ string) (int, error) {
	s.inside(ctx)
	return o.Qty + n, nil
}
func (s *shop) Action0(ctx context.Context) error          { s.inside(ctx); return nil }
func (s *shop) Action(ctx context.Context, _ string) error { s.inside(ctx); return nil }
func (s *shop) Action2(ctx context.Context, _ string, _ int64) error {
	s.inside(ctx)
	return nil
}
func (s *shop) Action3(ctx context.Context, _, _ string, _ uint64) error {
	s.inside(ctx)
	return nil
}

func TestEveryFormRunsUnderTheLockOfItsArguments(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	ctx := t.Context()
	s := &shop{t: t, locks: locks}
	ab := latchkey.Params("a", "b")
	abc := latchkey.Params("a", "b", "c")
	for _, c := range []struct {
		name string
		want []string
		call func() (int, error)
		res  int
	}{
		{"Func0", []string{"report"}, func() (int, error) {
			return latchkey.Func0(locks.WithLock("report"), s.Func0)(ctx)
		}, 1},
		{"Func", []string{"order:7"}, func() (int, error) {
			return latchkey.Func(locks.WithLock("order:#{param.id}"), s.Func)(ctx, purchase{ID: "7", Qty: 3})
		}, 3},
		{"Func, list", []string{"sku:a", "sku:b"}, func() (int, error) {
			return latchkey.Func(locks.WithLock("sku:#{param.items}"), s.Func)(ctx, purchase{Items: []string{"b", "a", "b"}, Qty: 2})
		}, 2},
		{"Func2", []string{"order:7:2"}, func() (int, error) {
			return latchkey.Func2(locks.WithLock("order:#<a.id>:#{b}", ab), s.Func2)(ctx, purchase{ID: "7"}, 2)
		}, 2},
		{"Func3", []string{"7/1"}, func() (int, error) {
			return latchkey.Func3(locks.WithLock("#{a.ID}/#{b}", abc), s.Func3)(ctx, &purchase{ID: "7"}, 1, "")
		}, 1},
		{"Action0", []string{"pay:github.com/latchkey-go/latchkey_test.(*shop).Action0"}, func() (int, error) {
			return 0, latchkey.Action0(locks.WithLock("", latchkey.Prefix("pay")), s.Action0)(ctx)
		}, 0},
		{"Action", []string{"user:ann"}, func() (int, error) {
			return 0, latchkey.Action(locks.WithLock("user:#{param}"), s.Action)(ctx, "ann")
		}, 0},
		{"Action2", []string{"ann:-1"}, func() (int, error) {
			return 0, latchkey.Action2(locks.WithLock("#{a}:#{b}", ab), s.Action2)(ctx, "ann", -1)
		}, 0},
		{"Action3", []string{"18446744073709551615"}, func() (int, error) {
			return 0, latchkey.Action3(locks.WithLock("#{c}", abc), s.Action3)(ctx, "", "", 1<<64-1)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t, s.want, s.calls = t, c.want, 0
			res, err := c.call()
			if res != c.res || err != nil || s.calls != 1 {
				t.Errorf("= %d, %v after %d calls; want %d, nil after one", res, err, s.calls, c.res)
			}
			if store.Len() != 0 {
				t.Errorf("%d locks are left", store.Len())
			}
		})
	}
}

// However a function ends, its lock goes, and what it did comes through unchanged.
func TestTheLockGoesHoweverTheFunctionEnds(t *testing.T) {
	errOwn := errors.New("own")
	for name, end := range map[string]struct {
		f    func() (*purchase, error)
		want string
	}{
		"nil result":   {func() (*purchase, error) { return nil, nil }, "<nil> <nil>"},
		"result":       {func() (*purchase, error) { return &purchase{ID: "1"}, nil }, "1 <nil>"},
		"error":        {func() (*purchase, error) { return nil, errOwn }, "<nil> own"},
		"both":         {func() (*purchase, error) { return &purchase{ID: "1"}, errOwn }, "1 own"},
		"panic":        {func() (*purchase, error) { panic(errOwn) }, "panic own"},
		"panic nil":    {func() (*purchase, error) { panic(nothing()) }, "panic panic called with nil argument"},
		"Goexit":       {func() (*purchase, error) { runtime.Goexit(); return nil, nil }, "goexit"},
		"its own busy": {func() (*purchase, error) { return nil, &latchkey.BusyError{Key: "x"} }, `<nil> latchkey: lock "x" is busy`},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			locks := latchkey.New(store)
			heldInside := false
			f := latchkey.Func(locks.WithLock("k:#{param}"), func(context.Context, string) (*purchase, error) {
				heldInside = !free(t, store, "k:1")
				return end.f()
			}, latchkey.OnBusy(func(context.Context, string, *latchkey.BusyError) (*purchase, error) {
				return nil, errors.New("the function's own error was taken for contention")
			}))
			got := "goexit"
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() {
					if p := recover(); p != nil {
						got = fmt.Sprint("panic ", p)
					}
				}()
				res, err := f(t.Context(), "1")
				if got = fmt.Sprint("<nil> ", err); res != nil {
					got = fmt.Sprint(res.ID, " ", err)
				}
			})
			wg.Wait()
			if got != end.want {
				t.Errorf("ended with %q, want %q", got, end.want)
			}
			if !heldInside {
				t.Error("void: the lock was not held inside")
			}
			if store.Len() != 0 {
				t.Error("the lock is still held")
			}
		})
	}
}

func TestABusyLockKeepsTheFunctionFromRunning(t *testing.T) {
	locks := latchkey.New(memstore.New())
	inside, done := make(chan struct{}), make(chan struct{})
	slow := latchkey.Action(locks.WithLock("k:#{param}"), func(context.Context, string) error {
		close(inside)
		<-done
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { _ = slow(t.Context(), "1") })
	<-inside

	ran := false
	run := func(context.Context, string) (string, error) { ran = true; return "ran", nil }
	_, err := latchkey.Func(locks.WithLock("k:#{param}"), run)(t.Context(), "1")
	var busy *latchkey.BusyError
	if !errors.Is(err, latchkey.ErrBusy) || !errors.As(err, &busy) || ran {
		t.Fatalf("err = %v, ran = %v; want ErrBusy and no run", err, ran)
	}
	if busy.Key != "k:1" || busy.Waited != 0 || busy.RetryAfter <= 29*time.Second || busy.RetryAfter > 30*time.Second {
		t.Errorf("busy = %+v; want k:1, no wait, the rest of a 30 s lease", busy)
	}

	got, err := latchkey.Func(locks.WithLock("k:#{param}"), run,
		latchkey.OnBusy(func(ctx context.Context, param string, busy *latchkey.BusyError) (string, error) {
			if locks.Held(ctx, busy.Key) {
				t.Error("the fallback thinks that it has the lock")
			}
			return "instead of " + param + ": " + busy.Key, nil
		}))(t.Context(), "1")
	if got != "instead of 1: k:1" || err != nil || ran {
		t.Errorf("fallback = %q, %v, ran = %v", got, err, ran)
	}

	close(done)
	wg.Wait()
	if got, err := latchkey.Func(locks.WithLock("k:#{param}"), run)(t.Context(), "1"); got != "ran" || err != nil {
		t.Errorf("after the release: %q, %v", got, err)
	}
}

func TestWhenIsFalseTheFunctionRunsUnlocked(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	f := latchkey.Func(locks.WithLock("order:#{param.id}", latchkey.When("param.qty > 0")),
		func(ctx context.Context, _ *purchase) (bool, error) { return locks.Held(ctx, "order:7"), nil })
	for qty, want := range map[int]bool{0: false, 1: true} {
		if held, err := f(t.Context(), &purchase{ID: "7", Qty: qty}); held != want || err != nil {
			t.Errorf("qty %d: held = %v, %v; want %v", qty, held, err, want)
		}
	}
	// Without a lock the key is not needed either.
	if _, err := f(t.Context(), &purchase{}); err != nil {
		t.Errorf("no id, qty 0: %v", err)
	}
	// A condition that can't be evaluated is no permission.
	if _, err := f(t.Context(), nil); !errors.Is(err, latchkey.ErrKey) {
		t.Errorf("nil argument: %v, want ErrKey", err)
	}
}

func TestWithoutAKeyTheFunctionDoesNotRun(t *testing.T) {
	locks := latchkey.New(memstore.New())
	ran := 0
	f := latchkey.Action(locks.WithLock("order:#{param.id}"), func(context.Context, *purchase) error { ran++; return nil })
	for name, arg := range map[string]*purchase{"nil": nil, "empty": {}, "blank": {ID: " \t"}} {
		var keyErr *latchkey.KeyError
		if err := f(t.Context(), arg); !errors.Is(err, latchkey.ErrKey) || !errors.As(err, &keyErr) {
			t.Errorf("%s: %v, want ErrKey", name, err)
		}
	}
	if ran != 0 {
		t.Errorf("the function ran %d times", ran)
	}
}

// rude fails in ways that user code fails.
type rude struct{ how string }

func (r rude) MarshalText() ([]byte, error) {
	switch r.how {
	case "panic":
		panic("rude")
	case "goexit":
		runtime.Goexit()
	}
	return nil, errInjected
}

func TestAKeyMethodThatFailsOrPanicsKeepsNoLock(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	f := latchkey.Action2(locks.WithLock("#{a.items}:#{b}", latchkey.Params("a", "b")),
		func(context.Context, purchase, rude) error { return nil })
	for _, how := range []string{"error", "panic"} {
		if err := f(t.Context(), purchase{Items: []string{"1", "2"}}, rude{how}); !errors.Is(err, latchkey.ErrKey) {
			t.Errorf("%s: %v, want ErrKey", how, err)
		}
	}
	if store.Len() != 0 {
		t.Errorf("%d locks are left", store.Len())
	}
}

func TestCtxVarsReachTheTemplate(t *testing.T) {
	type tenantKey struct{}
	tenant := latchkey.CtxVar("tenant", func(ctx context.Context) string { s, _ := ctx.Value(tenantKey{}).(string); return s })
	locks := latchkey.New(memstore.New(), tenant)
	f := latchkey.Func(locks.WithLock("#{ctx.tenant}:#{param}"), func(ctx context.Context, _ string) (bool, error) {
		return locks.Held(ctx, "acme:1"), nil
	})
	if held, err := f(context.WithValue(t.Context(), tenantKey{}, "acme"), "1"); !held || err != nil {
		t.Errorf("held = %v, %v", held, err)
	}
	if _, err := f(t.Context(), "1"); !errors.Is(err, latchkey.ErrKey) {
		t.Errorf("without a tenant: %v, want ErrKey", err)
	}
}

func TestTheLockOfAKeyIsTheSameInEveryForm(t *testing.T) {
	locks := latchkey.New(memstore.New())
	byText := latchkey.Action(locks.WithLock("order:#{param}"), func(context.Context, string) error { return nil })
	byNumber := latchkey.Action(locks.WithLock("order:#<param>"), func(context.Context, int64) error {
		return byText(context.Background(), "7") // another caller: its context carries no lease
	})
	if err := byNumber(t.Context(), 7); !errors.Is(err, latchkey.ErrBusy) {
		t.Errorf("order 7 by number and by text: %v, want ErrBusy", err)
	}
}

func nothing() any { return nil }
