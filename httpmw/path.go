package httpmw

import (
	"errors"
	"net/url"
	"strings"
)

var errAmbiguousPath = errors.New("can't be told from its escaped form in this path")

// path returns a path value, unescaped.
//
// Routers differ: http.ServeMux unescapes what PathValue returns, chi does not if the request's path was escaped in an
// unusual way, gin and echo do as they are set. The path itself tells which of the two forms a value has; one that has a
// percent sign and could be either is refused, as a guess might give one resource two keys.
func (c *call) path(name string) (string, error) {
	if c.m.pathValue != nil {
		return c.m.pathValue(c.r, name), nil
	}
	value, u := c.r.PathValue(name), c.r.URL
	if !strings.Contains(value, "%") {
		return value, nil
	}
	escaped := u.EscapedPath()
	decoded, raw := hasSegments(u.Path, value), hasSegments(escaped, value)
	if !decoded && !raw { // a part of a segment
		decoded, raw = strings.Contains(u.Path, value), strings.Contains(escaped, value)
	}
	switch {
	case decoded == raw:
		return "", errAmbiguousPath
	case decoded:
		return value, nil
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return "", errAmbiguousPath
	}
	return plain, nil
}

// hasSegments reports whether value is one or several whole segments of path.
func hasSegments(path, value string) bool {
	return strings.Contains(path+"/", "/"+strings.Trim(value, "/")+"/")
}
