package latchkey

import (
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"github.com/latchkey-go/latchkey/internal/keyenc"
)

// directPart is a keyPart whose value is read by its offset. The parts of a template lie side by side in memory.
type directPart struct {
	literal string
	table   *keyenc.Table
	directPath
}

// directPath reads a field of an argument by its offset: pointers to follow, then one last offset. Only fields of
// plain types can be read that way; everything else goes through reflection or the expression VM.
//
// It is safe because the offsets come from the very type that the argument is known to have, never leave it, and every
// pointer is checked before it is followed.
type directPath struct {
	arg  int
	hops []directHop
	off  uintptr
	kind reflect.Kind // of the field; Struct means time.Time
	text string
}

// directHop is a pointer to follow: it lies off bytes behind the last one.
type directHop struct {
	off  uintptr
	text string // what is nil if it is nil
}

// directFrom returns the direct form of a path, or nil if it has none.
func directFrom(p *keyPath) *directPath {
	if p == nil || p.root < 0 || p.ctx != nil {
		return nil
	}
	d := &directPath{arg: p.root}
	t := d.follow(p.typ, p.text)
	for i := range p.steps {
		step := &p.steps[i]
		if step.kind != memberField {
			return nil
		}
		for j, x := range step.index {
			f := t.Field(x)
			d.off += f.Offset
			t = f.Type
			if j < len(step.index)-1 { // an embedded struct on the way
				t = d.follow(t, step.text)
			}
		}
		t = d.follow(t, step.text)
	}
	switch textKindOf(t) {
	case textString, textInt, textUint, textBool, textTime:
	default:
		return nil
	}
	d.kind = t.Kind()
	d.text = p.last()
	return d
}

// follow adds hops for the pointers in front of t.
func (d *directPath) follow(t reflect.Type, text string) reflect.Type {
	for t.Kind() == reflect.Pointer {
		d.hops = append(d.hops, directHop{off: d.off, text: text})
		d.off = 0
		t = t.Elem()
	}
	return t
}

// append appends a value that is no string, encoded; p points at it.
func (d *directPart) append(b []byte, p unsafe.Pointer) []byte {
	switch d.kind {
	case reflect.Int:
		return appendInt(b, int64(*(*int)(p)), d.table)
	case reflect.Int64:
		return appendInt(b, *(*int64)(p), d.table)
	case reflect.Int32:
		return appendInt(b, int64(*(*int32)(p)), d.table)
	case reflect.Int16:
		return appendInt(b, int64(*(*int16)(p)), d.table)
	case reflect.Int8:
		return appendInt(b, int64(*(*int8)(p)), d.table)
	case reflect.Uint:
		return strconv.AppendUint(b, uint64(*(*uint)(p)), 10)
	case reflect.Uint64:
		return strconv.AppendUint(b, *(*uint64)(p), 10)
	case reflect.Uint32:
		return strconv.AppendUint(b, uint64(*(*uint32)(p)), 10)
	case reflect.Uint16:
		return strconv.AppendUint(b, uint64(*(*uint16)(p)), 10)
	case reflect.Uint8:
		return strconv.AppendUint(b, uint64(*(*uint8)(p)), 10)
	case reflect.Bool:
		return strconv.AppendBool(b, *(*bool)(p))
	default: // time.Time, the only struct that directFrom lets through
		var buf [len(time.RFC3339Nano)]byte
		text := (*time.Time)(p).UTC().AppendFormat(buf[:0], time.RFC3339Nano)
		b, _ = d.table.Append(b, unsafe.String(unsafe.SliceData(text), len(text))) // saves the copy that string(text) makes
		return b
	}
}

// appendInt writes the sign as any other text would be, so that -1 and "-1" are one key.
func appendInt(b []byte, n int64, table *keyenc.Table) []byte {
	if n < 0 && !table.Plain('-') {
		b, _ = table.Append(b, "-")
		return strconv.AppendUint(b, uint64(-n), 10)
	}
	return strconv.AppendInt(b, n, 10)
}
