package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary be what the program is when it runs itself again: a shop, or a whole sale.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == shopArg {
		os.Exit(shopMain())
	}
	if len(os.Args) > 1 && os.Args[1] == saleArg {
		os.Exit(sellAsProcess(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// small is a sale that is over soon and still goes wrong without a lock.
var small = []string{"-bottles", "20", "-buyers", "300", "-shops", "3"}

func TestAllThreeSales(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), small, &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d\n%s\n%s", code, &stdout, &stderr)
	}
	for _, want := range []string{
		"round", "without a lock", "in-process mutex", "latchkey  ",
		"latchkey sold each of the 20 bottles once.", "was killed holding the lock",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &stdout)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"-h":          {0, "-bottles"},
		"-bottles 9":  {2, "at least 10"},
		"-buyers 199": {2, "at least two for every bottle"},
		"-shops 1":    {2, "at least 2"},
		"-shops four": {2, "invalid value"},
		"now":         {2, "flags only"},
	} {
		t.Run(args, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(context.Background(), strings.Fields(args), &stderr, &stderr); code != want.code {
				t.Errorf("exit code %d, want %d", code, want.code)
			}
			if !strings.Contains(stderr.String(), want.says) {
				t.Errorf("does not say %q:\n%s", want.says, &stderr)
			}
		})
	}
}

func TestUnreachableServersAreReported(t *testing.T) {
	for variable, value := range map[string]string{
		"REDIS_URL":    "redis://127.0.0.1:1",
		"DATABASE_URL": "postgres://127.0.0.1:1/none?connect_timeout=2",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			var stdout, stderr bytes.Buffer
			if code := run(context.Background(), small, &stdout, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(stderr.String(), "refused") {
				t.Errorf("the error does not say why:\n%s", &stderr)
			}
		})
	}
	t.Run("a database it can't speak to", func(t *testing.T) {
		t.Setenv("DATABASE_URL", "oracle://scott:tiger@db/sales")
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), small, &stdout, &stderr); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if said := stderr.String(); !strings.Contains(said, "postgres://") || strings.Contains(said, "tiger") {
			t.Errorf("the error should name what is possible and no password:\n%s", said)
		}
	})
}
