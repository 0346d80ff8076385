//go:build unix

package testenv

import (
	"strings"
	"testing"
	"time"
)

func TestChildHearsAndAnswers(t *testing.T) {
	c := Child(t, "echo")
	for _, line := range []string{"one", "", "three and a half"} {
		c.Sayf(t, "%s", line)
		if got := c.Hear(t); got != line {
			t.Errorf("heard %q, want %q", got, line)
		}
	}
	c.CloseStdin()
	if code := c.Wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if line, ok := <-c.Lines(); ok {
		t.Errorf("heard %q after the end", line)
	}
}

func TestChildGetsArgsAndEnv(t *testing.T) {
	c := Child(t, "show", Args("a", "b"), Env("TESTENV_SHOWN", "c"))
	for _, want := range []string{"a,b", "c", ""} {
		if got := c.Hear(t); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

func TestChildExitCode(t *testing.T) {
	if code := Child(t, "exit 3").Wait(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestChildPausedAnswersOnlyWhenResumed(t *testing.T) {
	c := Child(t, "echo")
	c.Pause(t)
	c.Sayf(t, "hello")
	select {
	case line := <-c.Lines():
		t.Fatalf("a paused child said %q", line)
	case <-time.After(50 * time.Millisecond):
	}
	c.Resume(t)
	if got := c.Hear(t); got != "hello" {
		t.Errorf("heard %q, want hello", got)
	}
}

func TestChildKilled(t *testing.T) {
	for _, paused := range []bool{false, true} {
		c := Child(t, "echo")
		if paused {
			c.Pause(t)
		}
		c.Kill(t)
		if code := c.Wait(); code != -1 {
			t.Errorf("exit code %d, want -1 for a signal", code)
		}
		if alive(c.Pid()) {
			t.Errorf("pid %d is alive after Kill", c.Pid())
		}
	}
}

func TestChildEndsWithTest(t *testing.T) {
	var c *ChildProcess
	t.Run("inner", func(t *testing.T) {
		c = Child(t, "echo")
		c.Sayf(t, "never read")
	})
	select {
	case <-c.Done():
	default:
		t.Error("the child outlived its test")
	}
	if alive(c.Pid()) {
		t.Errorf("pid %d is alive", c.Pid())
	}
}

func TestChildMistakesNameTheFix(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(TB)
		want string
	}{
		{"unknown name", func(t TB) { Child(t, "ecko") }, `child "ecko" is not one of those given to testenv.Main`},
		{"unknown name lists the known", func(t TB) { Child(t, "ecko") }, "echo, exit 3, owner"},
		{"nothing said", func(t TB) { Child(t, "silent").Hear(t) }, `child "silent" ended (exit status 0) and said nothing more`},
		{"no children", func(t TB) {
			old := children.Swap(nil)
			defer children.Store(old)
			Child(t, "echo")
		}, "call testenv.Main from TestMain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fails(t, tt.do); !strings.Contains(got, tt.want) {
				t.Errorf("message:\n%s\nwant it to contain:\n%s", got, tt.want)
			}
		})
	}
}
