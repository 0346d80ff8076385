//go:build unix

package recipes

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// A recipe that grows over ten lines is a reason to change the library, not the recipe.
func TestRecipesAreShorterThanTenLines(t *testing.T) {
	for _, file := range []string{"pgx.go", "gorm.go", "bun.go"} {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		recipes := 0
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				recipes++
				if lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; lines >= 10 {
					t.Errorf("%s has %d lines", f.Name.Name, lines)
				}
			}
		}
		if recipes != 1 {
			t.Errorf("%s has %d functions, want the recipe alone", file, recipes)
		}
	}
}
