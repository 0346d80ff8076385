package latchkey

import (
	"errors"

	"github.com/latchkey-go/latchkey/internal/keyenc"
	"github.com/latchkey-go/latchkey/internal/keytmpl"
)

// compileKey compiles a template. The error is a *KeyError.
func compileKey(template string, env keyEnv) (*KeyExpr, error) {
	k := &KeyExpr{src: source{text: template}, env: env, maxKeys: env.maxKeys}
	if k.maxKeys <= 0 {
		k.maxKeys = defaultMaxKeys
	}
	if err := env.check(k.src); err != nil {
		return nil, err
	}
	if err := k.src.tooLong(); err != nil {
		return nil, err
	}
	code := template
	if code == "" {
		code = "#{" + rootFn + "}"
		k.src.text = code
	}
	segs, err := keytmpl.Parse(code)
	if err != nil {
		return nil, k.src.syntaxError(err)
	}
	if err := k.compileParts(segs); err != nil {
		return nil, err
	}
	k.fuse()
	if len(k.parts) == 0 {
		k.tail = k.text([]byte(k.tail))
	}
	k.src.text = template
	return k, nil
}

// maxSource bounds what a configuration file can make the parser recurse into.
const maxSource = 4096

func (s source) tooLong() *KeyError {
	if len(s.text) <= maxSource {
		return nil
	}
	return &KeyError{Template: s.text[:40] + "…", Reason: "longer than 4096 bytes", condition: s.condition}
}

func (s source) syntaxError(err error) *KeyError {
	if at, ok := errors.AsType[*keytmpl.Error](err); ok {
		return s.errorAt(at.Offset, at.Reason, at.Hint)
	}
	return s.errorAt(0, err.Error(), "")
}

func (k *KeyExpr) compileParts(segs []keytmpl.Segment) *KeyError {
	k.tail = k.env.namespace + k.env.prefix
	for i, seg := range segs {
		if seg.Kind == keytmpl.Literal {
			k.tail += keyenc.Literal(seg.Text)
			continue
		}
		if i > 0 && !separated(segs, i) {
			return k.src.errorAt(seg.Start, "nothing tells this value from the one before it",
				"put a separator between them, such as : or / — a letter or digit could be part of either")
		}
		value, err := compileExpr(k.src, seg.Source, seg.Text, &k.env, seg.Kind == keytmpl.Path, strict)
		if err != nil {
			return err
		}
		if value.isConst && keyenc.IsBlank(value.text) {
			return k.src.errorAt(seg.Source, "the value is always blank", "")
		}
		if value.shape.null {
			return k.src.errorAt(seg.Source, "the value is always nil", "")
		}
		hintName := "…"
		if value.path != nil {
			hintName = value.name(&seg)
		}
		list, p := value.shape.textProblem(hintName)
		if p != nil {
			return k.src.errorAt(seg.Source, p.reason, p.hint)
		}
		if list && k.list {
			return k.src.errorAt(seg.Start, "a second list: one key for each pair is not supported", "")
		}
		k.list = k.list || list
		k.parts = append(k.parts, keyPart{
			literal: k.tail, seg: seg, table: keyenc.NewTable(separators(segs, i)...), value: value, list: list,
		})
		k.tail = ""
	}
	return nil
}

// separated reports whether the text between a placeholder and the one before it holds a separator.
func separated(segs []keytmpl.Segment, i int) bool {
	switch before := segs[i-1]; {
	case before.Kind != keytmpl.Literal:
		return false
	case i == 1:
		return true
	default:
		for j := range len(before.Text) {
			if keyenc.Separates(before.Text[j]) {
				return true
			}
		}
		return false
	}
}

// separators returns the separators on either side of a placeholder: a value must not contain them, or its end could
// not be told.
func separators(segs []keytmpl.Segment, i int) []byte {
	var seps []byte
	if i > 0 && segs[i-1].Kind == keytmpl.Literal {
		text := segs[i-1].Text
		for j := len(text) - 1; j >= 0; j-- {
			if keyenc.Separates(text[j]) {
				seps = append(seps, text[j])
				break
			}
		}
	}
	if i+1 < len(segs) && segs[i+1].Kind == keytmpl.Literal {
		text := segs[i+1].Text
		for j := range len(text) {
			if keyenc.Separates(text[j]) {
				seps = append(seps, text[j])
				break
			}
		}
	}
	return seps
}

// fuse turns constants into literal text, and paths that can be read by their offset into direct ones.
func (k *KeyExpr) fuse() {
	parts := k.parts[:0]
	pending := ""
	for _, part := range k.parts {
		part.literal = pending + part.literal
		pending = ""
		if part.value.isConst {
			b, _ := part.table.Append([]byte(part.literal), part.value.text)
			pending = string(b)
			continue
		}
		parts = append(parts, part)
	}
	k.parts, k.tail = parts, pending+k.tail
	for i := range k.parts {
		part := &k.parts[i]
		if d := directFrom(part.value.path); d != nil {
			k.fast = append(k.fast, directPart{literal: part.literal, table: part.table, directPath: *d})
		}
	}
	k.direct = len(k.fast) == len(k.parts)
	if len(k.parts) == 0 {
		k.tail = keyenc.Shorten([]byte(k.tail))
	}
}
