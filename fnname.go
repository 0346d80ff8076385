package latchkey

import (
	"reflect"
	"runtime"
	"strings"
	"unicode"
)

// funcName returns the full name of a function, for #{fn}. A name has to be there tomorrow and in every process: what
// the compiler numbers (a closure), shares (a generic instance) or names after an interface has none, and reason says
// so. Exactly one of the two is empty.
func funcName(fn any) (name, reason string) {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Func {
		return "", "no function: " + fixName
	}
	if v.IsNil() {
		return "", "nil function: " + fixName
	}
	f := runtime.FuncForPC(v.Pointer())
	if f == nil {
		return "", "function without a name: " + fixName
	}
	if reason := unnamed(f.Name()); reason != "" {
		return "", reason + ": " + fixName
	}
	return strings.TrimSuffix(unescapePath(f.Name()), "-fm"), ""
}

const fixName = `give it a name with Name("…")`

var thisPackage = reflect.TypeFor[KeyExpr]().PkgPath()

// unnamed says why the runtime's name of a function won't do, or "".
func unnamed(name string) string {
	pkg, rest := splitName(name)
	wrapped := pkg == thisPackage && strings.Contains(rest, "[...]")
	parts := strings.Split(strings.TrimSuffix(rest, "-fm"), ".")
	switch last := parts[len(parts)-1]; {
	case wrapped:
		return "already wrapped function"
	case strings.Contains(rest, "[...]"):
		return "instance of a generic function"
	case pkg == "reflect":
		return "function made by reflection"
	case len(parts) > 1 && isClosureName(last), strings.ContainsRune(rest, '·'), strings.Contains(last, "-"):
		return "closure"
	case len(parts) == 1:
		return ""
	case len(parts) == 2 && strings.HasPrefix(parts[0], "(*"):
		return ""
	case len(parts) == 2:
		// pkg.T.M is a method of the type T or of the interface T. The names are the same, and through an interface it
		// would be one name for all its implementations.
		return "method of a value or of an interface, which look the same"
	}
	return "closure"
}

// splitName splits the runtime's name of a function into its package path and the rest.
func splitName(name string) (pkg, rest string) {
	slash := strings.LastIndexByte(strings.SplitN(name, "[", 2)[0], '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return "", name
	}
	return name[:slash+dot], name[slash+dot+1:]
}

// isClosureName recognises what the compiler calls function literals: func1, 2, gowrap1.
func isClosureName(s string) bool {
	word := strings.TrimRightFunc(s, unicode.IsDigit)
	switch word {
	case "", "func", "gowrap", "deferwrap":
		return word != s
	}
	return false
}

// unescapePath undoes what the linker does to dots in the last element of an import path: yaml%2ev3.
func unescapePath(name string) string { return strings.ReplaceAll(name, "%2e", ".") }
