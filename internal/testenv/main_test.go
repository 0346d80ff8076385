//go:build unix

package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main(m, Children{
		"echo":         echo,
		"exit 3":       func(*Self) { os.Exit(3) },
		"owner":        owner,
		"show":         show,
		"silent":       func(*Self) {},
		"without path": withoutPath,
	})
}

// echo says back what it hears until it hears no more.
func echo(s *Self) {
	for {
		line, ok := s.Hear()
		if !ok {
			return
		}
		s.Sayf("%s", line)
	}
}

// owner starts a server and a child of its own and waits to be killed.
func owner(s *Self) {
	env := Program()
	srv := Redis(env)
	c := Child(env, "echo")
	s.Sayf("%s", srv.Addr())
	s.Sayf("%d", srv.Pid())
	s.Sayf("%d", c.Pid())
	s.Hear()
	env.Close()
}

// show says what it was started with.
func show(s *Self) {
	s.Sayf("%s", strings.Join(s.Args, ","))
	s.Sayf("%s", os.Getenv("TESTENV_SHOWN"))
	s.Sayf("%s", os.Getenv(childVar))
}

// withoutPath asks for a server where there is none.
func withoutPath(*Self) {
	env := Program()
	defer env.Close()
	Redis(env)
}

// spy is a test that may fail: it takes down what it is told instead of ending.
type spy struct {
	*testing.T

	cleanups []func()
	message  string
}

type fatal struct{}

func (s *spy) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *spy) Fatalf(format string, args ...any) {
	s.message = fmt.Sprintf(format, args...)
	panic(fatal{})
}

func (s *spy) end() {
	for _, f := range s.cleanups {
		f()
	}
}

// fails runs f and returns the message with which it ended the test.
func fails(t *testing.T, f func(TB)) string {
	t.Helper()
	s := &spy{T: t}
	defer s.end()
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(fatal{}) {
				panic(r)
			}
		}()
		f(s)
	}()
	if s.message == "" {
		t.Fatal("the test went on")
	}
	return s.message
}
