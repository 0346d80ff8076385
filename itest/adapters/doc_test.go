package adapters

import (
	"os"
	"strings"
	"testing"
)

// What the documentation of httpmw shows is what the tests of the routers run.
func TestTheDocumentedAdaptersAreTheTestedOnes(t *testing.T) {
	text, err := os.ReadFile("../../httpmw/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented strings.Builder
	for line := range strings.Lines(string(text)) {
		documented.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "//"), "\t"))
	}
	for _, name := range []string{"gin.go", "echo4.go", "echo5.go"} {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(code), "\nfunc ")
		if body == "" || !strings.Contains(documented.String(), "func "+body) {
			t.Errorf("the documentation of httpmw does not have the function of %s as it is", name)
		}
	}
}
