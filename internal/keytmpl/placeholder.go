package keytmpl

import "strings"

// expr reads #{…}. Its end is the brace that balances the opening one, not counting braces in quotes and comments:
// #{"}" + param.id} is one placeholder.
func (p *parser) expr() *Error {
	start, source := p.pos, p.pos+2
	depth := 1
	for i := source; i < len(p.src); {
		switch c := p.src[i]; {
		case c == '"' || c == '\'' || c == '`':
			end := quoted(p.src, i)
			if end < 0 {
				return p.errorAt(i, "a quote is not closed", "")
			}
			i = end
			continue
		case strings.HasPrefix(p.src[i:], "//"):
			i = skipTo(p.src, i+2, "\n")
			continue
		case strings.HasPrefix(p.src[i:], "/*"):
			i = skipTo(p.src, i+2, "*/")
			continue
		case strings.HasPrefix(p.src[i:], "#{"):
			return p.unclosed(start, i)
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				if strings.TrimSpace(p.src[source:i]) == "" {
					return p.errorAt(start, "the placeholder is empty", "write #{fn} for the function's name")
				}
				p.placeholder(Expr, start, source, i, i+1)
				return nil
			}
		}
		i++
	}
	return p.unclosed(start, len(p.src))
}

// unclosed says what is wrong with a #{ that has no }. Its source was read up to stop.
func (p *parser) unclosed(start, stop int) *Error {
	if body, _, mixed := strings.Cut(p.src[start+2:stop], ">"); mixed && isPath(body) {
		return p.errorAt(start+2+len(body), "#{ is closed by >", "write #{"+body+"} or #<"+body+">")
	}
	return p.errorAt(start, "#{ is not closed", "a literal #{ is written ##{")
}

// path reads #<…>. A path holds no > outside of quotes, so the first one ends it.
func (p *parser) path() *Error {
	start, source := p.pos, p.pos+2
	for i := source; i < len(p.src); {
		switch c := p.src[i]; c {
		case '"', '\'', '`':
			end := quoted(p.src, i)
			if end < 0 {
				return p.errorAt(i, "a quote is not closed", "")
			}
			i = end
			continue
		case '>':
			if strings.TrimSpace(p.src[source:i]) == "" {
				return p.errorAt(start, "the placeholder is empty", "write #<fn> for the function's name")
			}
			p.placeholder(Path, start, source, i, i+1)
			return nil
		case '}':
			body := p.src[source:i]
			return p.errorAt(i, "#< is closed by }", "write #{"+body+"} or #<"+body+">")
		case '{':
			return p.errorAt(start, "#< is not closed", "a literal #< is written ##<")
		}
		i++
	}
	return p.errorAt(start, "#< is not closed", "a literal #< is written ##<")
}

// quoted returns the offset behind the quoted text that starts at i, or -1. In backquotes a doubled backquote stands
// for one, elsewhere a backslash hides the next byte: the rules of expr-lang.
func quoted(s string, i int) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote != '`':
			i++
		case s[i] == quote && quote == '`' && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1
		case s[i] == '\n' && quote != '`':
			return -1
		}
	}
	return -1
}

// skipTo returns the offset behind the next end, or the length of s.
func skipTo(s string, i int, end string) int {
	if j := strings.Index(s[i:], end); j >= 0 {
		return i + j + len(end)
	}
	return len(s)
}

func isPath(s string) bool {
	s = strings.TrimSpace(s)
	for i, r := range s {
		if !isNameStart(r) && (i == 0 || r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}
