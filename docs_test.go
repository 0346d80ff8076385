package latchkey_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A page that names a test which is gone promises what nobody checks.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	var code bytes.Buffer
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`").FindAllSubmatch(text, -1) {
			named++
			if !bytes.Contains(code.Bytes(), []byte("func "+string(name[1])+"(")) {
				t.Errorf("%s names %s; there is no such test", page, name[1])
			}
		}
	}
	if named == 0 {
		t.Error("void: no page names a test")
	}
}
