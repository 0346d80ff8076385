package latchkey_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// The README's code compiles because it is copied from examples; this test finds each block in one of them, line by line.
func TestTheReadmesCodeIsTakenFromExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"httpmw", "grpcmw", "itest", "itest/transactions", "examples/*"} {
		more, _ := filepath.Glob(dir + "/*.go")
		sources = append(sources, more...)
	}
	var code []string
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, flat(string(text)))
	}
	blocks := goBlock.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("void: only %d blocks of Go found", len(blocks))
	}
	for _, block := range blocks {
		found := false
		for _, c := range code {
			found = found || strings.Contains(c, flat(block[1]))
		}
		if !found {
			t.Errorf("in no example:\n%s", block[1])
		}
	}
}

// flat drops indentation and blank lines.
func flat(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
