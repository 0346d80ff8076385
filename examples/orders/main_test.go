package main

import (
	"bytes"
	"testing"
	"time"
)

func TestOrdersArePaidOnceOverBothFaces(t *testing.T) {
	var stdout, stderr bytes.Buffer
	start := time.Now()
	if code := run(t.Context(), []string{"-total", "12"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	if took := time.Since(start); took > 45*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The control: what goes wrong has to be noticed.
func TestJudgeNotices(t *testing.T) {
	good := Result{HTTP: [answers]int64{paid: 5}, GRPC: [answers]int64{paid: 5}, Wanted: 10, Received: 10}
	control := Result{TooMuch: 3}
	if err := judge(control, good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(control, locked *Result){
		"too much":       func(_, r *Result) { r.TooMuch, r.Received = 1, 11 },
		"too little":     func(_, r *Result) { r.Received = 9 },
		"forgotten":      func(_, r *Result) { r.Forgotten = 1 },
		"failed calls":   func(_, r *Result) { r.GRPC[failed] = 1 },
		"an idle face":   func(_, r *Result) { r.HTTP[paid] = 0 },
		"a tame control": func(c, _ *Result) { c.TooMuch = 0 },
	} {
		c, r := control, good
		change(&c, &r)
		if judge(c, r) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}
