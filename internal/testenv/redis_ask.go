//go:build unix

package testenv

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// housekeeping lists the commands that this package sends itself, as INFO names them. The library under test uses none.
var housekeeping = []string{"auth", "client|kill", "client|pause", "config|resetstat", "info", "keys", "ping", "script|flush"}

var callsField = regexp.MustCompile(`calls=(\d+)`)

func (s *Server) do(args ...string) (any, error) { return ask(s.Addr(), s.conf.password, args...) }

// Do sends one command on a connection of its own. The reply is a string, an int64, nil or a []any of these; a reply that
// is an error ends the test.
func (s *Server) Do(t TB, args ...string) any {
	t.Helper()
	reply, err := s.do(args...)
	if err != nil {
		t.Fatalf("testenv: redis-server at %s: %v", s.Addr(), err)
	}
	return reply
}

// Keys returns the names of all keys in database 0, sorted.
func (s *Server) Keys(t TB) []string {
	t.Helper()
	list, ok := s.Do(t, "KEYS", "*").([]any)
	if !ok {
		t.Fatalf("testenv: redis-server at %s: KEYS answered something other than a list", s.Addr())
	}
	keys := make([]string, len(list))
	for i, k := range list {
		keys[i] = fmt.Sprint(k)
	}
	slices.Sort(keys)
	return keys
}

// Commands returns how often each command ran since the start or the last ResetStats: {"set": 2, "evalsha": 1,
// "client|setname": 1}. Commands that a script ran count too, beside the script's own evalsha. AUTH, CLIENT KILL, CLIENT
// PAUSE, CONFIG RESETSTAT, INFO, KEYS, PING and SCRIPT FLUSH are left out: this package sends them.
func (s *Server) Commands(t TB) map[string]int64 {
	t.Helper()
	info, err := s.info("commandstats")
	if err != nil {
		t.Fatalf("testenv: redis-server at %s: %v", s.Addr(), err)
	}
	counts := make(map[string]int64)
	for field, value := range info {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		m := callsField.FindStringSubmatch(value)
		if !ok || m == nil || slices.Contains(housekeeping, name) {
			continue
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatalf("testenv: redis-server at %s: %s: %v", s.Addr(), field, err)
		}
		if n > 0 {
			counts[name] = n
		}
	}
	return counts
}

// ResetStats starts the counts of Commands anew.
func (s *Server) ResetStats(t TB) {
	t.Helper()
	s.Do(t, "CONFIG", "RESETSTAT")
}

// Info returns one section of INFO by field: Info(t, "clients")["connected_clients"].
func (s *Server) Info(t TB, section string) map[string]string {
	t.Helper()
	info, err := s.info(section)
	if err != nil {
		t.Fatalf("testenv: redis-server at %s: %v", s.Addr(), err)
	}
	return info
}

func (s *Server) info(section string) (map[string]string, error) {
	reply, err := s.do("INFO", section)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(fmt.Sprint(reply)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
