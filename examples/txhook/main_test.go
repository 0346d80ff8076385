//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be what the program is when it runs itself again: a teller, or all of it.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == tellerArg {
		os.Exit(tellerMain())
	}
	if len(os.Args) > 1 && os.Args[1] == allArg {
		os.Exit(runAsProcess(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestAllOrders(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"-calls", "30", "-faults", "3", "-limit", "5m"}, &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d\n%s\n%s", code, &stdout, &stderr)
	}
	for _, want := range []string{
		"under load", "unlock before COMMIT", "under faults", "lock around two, fenced", "Whatever happens to them, fenced it loses nothing.",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &stdout)
		}
	}
	if lines := strings.Count(stdout.String(), "\n"); lines > 24 {
		t.Errorf("%d lines are more than a screen", lines)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// Rounds that come to no end were each given up by themselves, so that the whole could take minutes.
func TestTheWholeIsBounded(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var stdout, stderr bytes.Buffer
	start := time.Now()
	code := run(context.Background(), []string{"-calls", "1000000", "-limit", "2s"}, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "not done within 2s") {
		t.Errorf("exit code %d, want 1\n%s\n%s", code, &stdout, &stderr)
	}
	if took := time.Since(start); took > farewellFor {
		t.Errorf("took %v", took)
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
		"-h":          {0, "-faults"},
		"-calls 0":    {2, "at least 1"},
		"-faults 0":   {2, "at least 1"},
		"-faults two": {2, "invalid value"},
		"-limit 0s":   {2, "at least 1"},
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
			if code := run(context.Background(), nil, &stdout, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(stderr.String(), "refused") {
				t.Errorf("the error does not say why:\n%s", &stderr)
			}
		})
	}
}
