package httpmw

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/latchkey-go/latchkey"
)

// jsonValue is a part of a JSON body without a declared type. A template can name its members and use strings, whole
// numbers and booleans as text.
type jsonValue struct{ v any }

// UnmarshalJSON implements [json.Unmarshaler]. Numbers stay text, so that large ones stay exact.
func (j *jsonValue) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	return d.Decode(&j.v)
}

var (
	errNoText = errors.New("an object, a list or a fraction has no text of its own")
	errCases  = errors.New("is there in upper and lower case: one of them would be ignored")
)

// MarshalText implements [encoding.TextMarshaler].
func (j jsonValue) MarshalText() ([]byte, error) {
	switch v := j.v.(type) {
	case string:
		return []byte(v), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case json.Number:
		if s := v.String(); !strings.ContainsAny(s, ".eE") {
			if s == "-0" {
				s = "0"
			}
			return []byte(s), nil
		}
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.AppendInt(nil, int64(f), 10), nil
		}
	}
	return nil, errNoText
}

func (c *call) untyped() (any, error) { return c.json(func() any { return new(jsonValue) }) }

// jsonMembers describes a jsonValue: any name, since it shows only in the request whether there is one.
type jsonMembers struct{}

func (jsonMembers) String() string {
	return "a JSON value without a declared type (httpmw.Body declares one)"
}
func (jsonMembers) Names() []string { return nil }

// Member implements [latchkey.Members].
func (jsonMembers) Member(name string) (latchkey.Member, error) {
	return latchkey.Member{Type: reflect.TypeFor[jsonValue](), Of: jsonMembers{}, Get: func(v any) (any, error) {
		object, ok := v.(*jsonValue).v.(map[string]any)
		if !ok {
			return nil, errors.New("is not there: what it would be part of is no object")
		}
		// Go decodes into structs without regard to case. If the handler does, it must not see another value.
		for other := range object {
			if other != name && strings.EqualFold(other, name) {
				return nil, errCases
			}
		}
		if found := object[name]; found != nil {
			return jsonValue{found}, nil
		}
		return nil, nil
	}}, nil
}
