package latchkey_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// row is a value without Go fields; columns describes it.
type row map[string]any

type table struct{ row row }

type columns struct{ name string }

var errNoColumn = errors.New("there is no such column")

func (c columns) String() string  { return c.name }
func (c columns) Names() []string { return []string{"id", "items", "customer", "twice"} }
func (c columns) Member(name string) (latchkey.Member, error) {
	get := func(v any) (any, error) {
		if x, ok := v.(*table).row[name]; ok {
			return x, nil
		}
		return nil, nil
	}
	switch name {
	case "id":
		return latchkey.Member{Type: reflect.TypeFor[int](), Get: get}, nil
	case "customer":
		return latchkey.Member{Type: reflect.TypeFor[table](), Of: c, Get: get}, nil
	case "items":
		return latchkey.Member{Type: reflect.TypeFor[[]table](), Of: c, Get: get}, nil
	case "byName":
		return latchkey.Member{Type: reflect.TypeFor[map[string]table](), Of: c, Get: get}, nil
	case "twice":
		return latchkey.Member{Type: reflect.TypeFor[string](), Get: func(any) (any, error) {
			return nil, errors.New("is given twice")
		}}, nil
	case "panics":
		return latchkey.Member{Type: reflect.TypeFor[string](), Get: func(any) (any, error) { panic("secret") }}, nil
	}
	return latchkey.Member{}, errNoColumn
}

func selfKeys(t *testing.T, template string, r row) ([]string, error) {
	t.Helper()
	k, err := latchkey.CompileKey(template, latchkey.Self(reflect.TypeFor[*table](), columns{"an order"}))
	if err != nil {
		return nil, err
	}
	return k.RenderAll(t.Context(), &table{r})
}

func TestDescribedMembersAreFollowedInEveryForm(t *testing.T) {
	r := row{
		"id": 7, "customer": table{row{"id": 9}}, "items": []table{{row{"id": 2}}, {row{"id": 1}}},
		"byName": map[string]table{"a": {row{"id": 5}}},
	}
	for template, want := range map[string]string{
		"order:#{id}":                           "order:7",
		"order:#<customer.id>":                  "order:9",
		"i:#{map(items, .id)}":                  "i:1 i:2",
		"i:#{items[1].id}":                      "i:1",
		"i:#{first(items).id}":                  "i:2",
		"i:#{map(filter(items, .id > 1), .id)}": "i:2",
		"n:#{byName.a.id}":                      "n:5",
		`n:#{byName["a"].id}`:                   "n:5",
		`n:#{customer.customer.id ?? "-"}`:      "n:-",
		"n:#{let c = customer; c.id}":           "n:9",
		"n:#{id > 1 ? id : customer.id}":        "n:7",
	} {
		keys, err := selfKeys(t, template, r)
		if got := strings.Join(keys, " "); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", template, got, err, want)
		}
	}
}

func TestDescribedMembersThatDoNotFit(t *testing.T) {
	for template, want := range map[string]string{
		"order:#{idd}":                  "there is no such column (1:9)\n | order:#{idd}\n | ........^\nhint: did you mean id?",
		"order:#{customer.it}":          "did you mean id?",
		"order:#{customer}":             "an order has no text of its own",
		"order:#{items}":                "write map(items, .id) for one key per element",
		"order:#{let x = id; y}":        "there is no such column",
		"order:#{customer[string(id)]}": "a member of an order must be named in the template",
	} {
		_, err := selfKeys(t, template, row{})
		if !errors.Is(err, latchkey.ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", template, err, want)
		}
	}
}

func TestDescribedMembersThatAreNotThere(t *testing.T) {
	for template, want := range map[string]string{
		"o:#{id}": "id is missing", "o:#{customer.id}": "customer is missing", "o:#{twice}": "twice is given twice",
		`o:#{twice ?? "x"}`: "twice is given twice", "o:#{panics}": "panics is looked up by code that panics",
		"o:#{map(items, .id)}": "is missing",
	} {
		_, err := selfKeys(t, template, row{})
		if !errors.Is(err, latchkey.ErrKey) || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", template, err, want)
		}
	}
}

func TestAnAdapterBindsADecoratorToDescribedMembers(t *testing.T) {
	locks := latchkey.New(memstore.New())
	bound, err := locks.WithLock("o:#{id}", latchkey.When("customer.id == 3")).
		Bind("", latchkey.Self(reflect.TypeFor[*table](), columns{"an order"}))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int]bool{3: true, 4: false} {
		err := bound.Do(t.Context(), []any{&table{row{"id": 1, "customer": table{row{"id": id}}}}}, func(ctx context.Context) error {
			if held := locks.Held(ctx, "o:1"); held != want {
				t.Errorf("customer %d: held = %v", id, held)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
