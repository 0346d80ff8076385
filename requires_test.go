package latchkey_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowedRequires is everything that a user of the library downloads with it, and why. What is not here belongs into one
// of the modules itest, examples and bench.
var allowedRequires = map[string]string{
	"github.com/expr-lang/expr":                 "the expressions in key templates",
	"github.com/go-redsync/redsync/v4":          "quorumstore",
	"github.com/jmoiron/sqlx":                   "transactions",
	"github.com/redis/go-redis/v9":              "redisstore",
	"go.uber.org/goleak":                        "tests",
	"google.golang.org/genproto/googleapis/rpc": "grpcmw, error details",
	"google.golang.org/grpc":                    "grpcmw",
	"google.golang.org/protobuf":                "grpcmw",
	"pgregory.net/rapid":                        "tests",
}

func TestRootModuleRequiresOnlyWhatItImports(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	text := goTool(t, "mod", "edit", "-json", "go.mod")
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if _, ok := allowedRequires[r.Path]; !ok && !r.Indirect {
			t.Errorf("go.mod requires %s, and so would every user. Allowed are:\n\t%s\nA driver, router, peer or embedded "+
				"server goes into the module itest, examples or bench.",
				r.Path, strings.Join(slices.Sorted(maps.Keys(allowedRequires)), "\n\t"))
		}
	}
	for _, r := range mod.Replace {
		t.Errorf("go.mod replaces %s: a user's build ignores that and takes the original", r.Old.Path)
	}
}

func TestRootPackageImportsNoBackend(t *testing.T) {
	for dep := range strings.FieldsSeq(goTool(t, "list", "-deps", ".")) {
		for _, backend := range []string{
			"github.com/redis/go-redis", "github.com/go-redsync/redsync", "google.golang.org/",
			module + "/memstore", module + "/redisstore", module + "/quorumstore", module + "/httpmw", module + "/grpcmw",
			module + "/locktest", module + "/internal/testenv",
		} {
			if strings.HasPrefix(dep, backend) {
				t.Errorf("the root package depends on %s; stores and adapters depend on it, not the other way round", dep)
			}
		}
	}
}

func TestInternalPackagesKnowNothingOfEachOther(t *testing.T) {
	for line := range strings.Lines(goTool(t, "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...")) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for imp := range strings.FieldsSeq(imports) {
			if strings.HasPrefix(imp, module) && !strings.HasPrefix(imp, pkg+"/") {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

const module = "github.com/latchkey-go/latchkey"

// goTool runs the go command here, in the root of the module.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := os.ReadFile("go.mod"); err != nil { // read here so that a cached result ends when the file changes
		t.Fatal(err)
	}
	cmd := exec.Command("go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
