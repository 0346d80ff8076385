package latchkey

import (
	"fmt"
	"reflect"
	"strings"
)

// nearest returns a hint naming what the user most likely meant, or "".
func nearest(name string, names []string) string {
	best, distance := "", len(name)/3+2
	for _, n := range names {
		if d := editDistance(strings.ToLower(name), strings.ToLower(n)); d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// editDistance counts the characters to insert, drop or change, a swap of two neighbours counting one.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}

// typeName names a type in messages.
func typeName(t reflect.Type) string {
	if t == nil || t == typeAny {
		return "any"
	}
	return t.String()
}

// article puts a or an in front of a type's name.
func article(name string) string {
	if name != "" && strings.ContainsRune("aeio", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
