package httpmw

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"

	"github.com/latchkey-go/latchkey"
)

// call is one request while its key is made. One goroutine uses it.
type call struct {
	m      *middleware
	ran    bool // the handler has been called
	r      *http.Request
	params url.Values // of the query, once it is asked for
	fields url.Values // of the form

	read    bool // the body has been read:
	content []byte
	start   []byte // of a body over the bound, of which the rest has not been read
	bodyErr error
	value   any // what it says in JSON
}

// request is what the handler gets: the request with the context of the lease, and the whole body if it was read.
func (c *call) request(ctx context.Context) *http.Request {
	r := c.r.WithContext(ctx)
	if c.read {
		r.Body = replayed{bytes.NewReader(c.content), c.r.Body}
	} else if c.start != nil {
		r.Body = replayed{io.MultiReader(bytes.NewReader(c.start), c.r.Body), c.r.Body}
	}
	return r
}

// handle runs the handler on its request, and removes the files of a form that it has parsed there: net/http does that
// only for the request that it made itself.
func (c *call) handle(ctx context.Context, next http.Handler, w http.ResponseWriter) {
	c.ran = true
	r := c.request(ctx)
	defer func() {
		if form := r.MultipartForm; form != nil && form != c.r.MultipartForm {
			_ = form.RemoveAll() // as net/http: nobody is left to tell
		}
	}()
	next.ServeHTTP(w, r)
}

// replayed is a body that was read before, or its start.
type replayed struct {
	io.Reader
	original io.Closer
}

func (b replayed) Close() error { return b.original.Close() }

// bodyError says why a body can't be used, without quoting it. What is behind it is for logs.
type bodyError struct {
	text  string
	cause error
}

func (e *bodyError) Error() string { return e.text }
func (e *bodyError) Unwrap() error { return e.cause }

// bytes reads the body, once.
func (c *call) bytes() ([]byte, error) {
	if c.read || c.bodyErr != nil {
		return c.content, c.bodyErr
	}
	body, limit := c.r.Body, c.m.maxBody
	if body == nil || body == http.NoBody {
		return nil, nil
	}
	if c.r.ContentLength > limit {
		c.bodyErr = tooLarge(limit)
		return nil, c.bodyErr
	}
	var buf bytes.Buffer
	if n := c.r.ContentLength; n > 0 {
		buf.Grow(int(n) + bytes.MinRead) // so that reading to the end needs no more
	}
	switch n, err := buf.ReadFrom(io.LimitReader(body, limit+1)); {
	case err != nil:
		c.bodyErr = &bodyError{"can't be read to its end", err}
	case n > limit:
		c.bodyErr, c.start = tooLarge(limit), buf.Bytes()
	default:
		c.content, c.read = buf.Bytes(), true
	}
	return c.content, c.bodyErr
}

// settle reads the body before a wait, if it is within the bound. Over HTTP/1 net/http does not look whether the caller
// is there until the body has been read; a body over the bound stays for the handler, and such a caller is not missed.
func (c *call) settle() error {
	if c.r.ProtoMajor > 1 || c.r.ContentLength > c.m.maxBody {
		return nil
	}
	if _, err := c.bytes(); err != nil && c.start == nil {
		return err
	}
	return nil
}

func tooLarge(limit int64) error {
	return &bodyError{fmt.Sprintf("is longer than the %d bytes allowed", limit), &http.MaxBytesError{Limit: limit}}
}

// jsonBody is the member body.
func (r *roots) jsonBody() latchkey.Member {
	if r.body == nil {
		return latchkey.Member{Type: reflect.TypeFor[jsonValue](), Of: jsonMembers{}, Get: get((*call).untyped)}
	}
	t := r.body
	return latchkey.Member{
		Type: reflect.PointerTo(t),
		Get:  get(func(c *call) (any, error) { return c.json(func() any { return reflect.New(t).Interface() }) }),
	}
}

// json returns what the body says, decoded into what to makes; nil if there is no body.
func (c *call) json(to func() any) (any, error) {
	if c.value != nil {
		return c.value, nil
	}
	content, err := c.bytes()
	if content = bytes.TrimSpace(content); err != nil || len(content) == 0 || string(content) == "null" {
		return nil, err
	}
	v := to()
	if err := json.Unmarshal(content, v); err != nil {
		c.bodyErr = &bodyError{"is not the JSON that is expected here", err}
		return nil, c.bodyErr
	}
	if err := oneOfEach(content); err != nil {
		c.bodyErr = err
		return nil, err
	}
	c.value = v
	return v, nil
}
