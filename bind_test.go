package latchkey_test

import (
	"context"
	"errors"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// headers looks its members up when the key is made, as an adapter's request does.
type headers map[string]string

func (h headers) KeyMember(name string) (string, bool) { v, ok := h[name]; return v, ok }

func TestAnAdapterBindsADecoratorToItsOwnVariables(t *testing.T) {
	store := memstore.New()
	locks := latchkey.New(store)
	bound, err := locks.WithLock("#{fn}:#{header.tenant}:#{id}").Bind("GET /x", latchkey.Var[headers]("header"), latchkey.Var[int]("id"))
	if err != nil {
		t.Fatal(err)
	}
	held := false
	err = bound.Do(t.Context(), []any{headers{"tenant": "acme"}, 7}, func(ctx context.Context) error {
		_, held = latchkey.LeaseFrom(ctx)
		return errInjected
	})
	if !held || !errors.Is(err, errInjected) || store.Len() != 0 {
		t.Errorf("held = %v, err = %v, %d locks left", held, err, store.Len())
	}
	for name, args := range map[string][]any{
		"missing member": {headers{}, 7}, "nil": {nil, 7}, "too few": {headers{}}, "wrong type": {headers{"tenant": "a"}, "7"},
	} {
		err := bound.Do(t.Context(), args, func(context.Context) error { t.Error(name + ": it ran"); return nil })
		if !errors.Is(err, latchkey.ErrKey) {
			t.Errorf("%s: %v, want ErrKey", name, err)
		}
	}
	if _, err := locks.WithLock("#{fn}").Bind(""); !errors.Is(err, latchkey.ErrKey) {
		t.Errorf("#{fn} without a name: %v", err)
	}
}
