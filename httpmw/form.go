package httpmw

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
)

var errInURL = errors.New("is given in the URL too, with another value")

// form returns a field of a form in the body, never a parameter of the URL. The handler may ask net/http for either, or for
// whichever comes first, so both must agree.
func (c *call) form(name string) (string, error) {
	if c.fields == nil {
		if err := c.parseForm(); err != nil {
			return "", err
		}
		if c.params == nil {
			c.params = c.r.URL.Query()
		}
	}
	value, err := single(c.fields[name])
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(c.params[name], func(v string) bool { return v != value }) {
		return "", errInURL
	}
	return value, nil
}

func (c *call) parseForm() error {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" && kind != "multipart/form-data" {
		return errors.New("is not there: the body is no form")
	}
	content, err := c.bytes()
	if err != nil {
		return err
	}
	// A copy parses its own body: the handler finds the original as it came. It has the method, which decides whether
	// net/http looks for a form.
	r := &http.Request{Method: c.r.Method, Header: c.r.Header, Body: io.NopCloser(bytes.NewReader(content)), URL: &url.URL{}}
	if kind == "multipart/form-data" {
		err = r.ParseMultipartForm(c.m.maxBody)
	} else {
		err = r.ParseForm()
	}
	if r.MultipartForm != nil {
		defer func() { _ = r.MultipartForm.RemoveAll() }() // files, of which the memory bound leaves none on disk
	}
	if err != nil {
		return &bodyError{"is not there: the form can't be read", err}
	}
	c.fields = r.PostForm
	return nil
}
