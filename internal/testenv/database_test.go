//go:build unix

package testenv

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestDatabases(t *testing.T) {
	for name, open := range map[string]func(TB) *Database{"postgres": Postgres, "mariadb": MariaDB} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			if !answers(t, db) {
				t.Fatal("a server that was started does not answer")
			}
			if !strings.Contains(db.URL("orders"), "/orders?") || !strings.Contains(db.URL(""), strings.TrimPrefix(db.Addr(), "127.0.0.1")) {
				t.Errorf("URLs: %s, %s", db.URL("orders"), db.URL(""))
			}
			db.Pause(t)
			if answers(t, db) {
				t.Error("a paused server answers")
			}
			db.Resume(t)
			if !answers(t, db) {
				t.Error("a resumed server does not answer")
			}
			db.Kill(t)
			if conn, err := net.Dial("tcp", db.Addr()); err == nil {
				_ = conn.Close()
				t.Error("a killed server takes connections")
			}
			db.Restart(t)
			if !answers(t, db) {
				t.Error("a restarted server does not answer")
			}
			pid := db.process().Pid()
			db.Stop()
			if alive(pid) {
				t.Errorf("pid %d is alive after Stop", pid)
			}
		})
	}
}

// answers reports whether the server says something to a new client within a moment: MariaDB greets, PostgreSQL
// answers the request for an encrypted connection.
func answers(t *testing.T, db *Database) bool {
	t.Helper()
	conn, err := net.Dial("tcp", db.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if db.name == "postgres" {
		if _, err := conn.Write([]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	n, _ := conn.Read(make([]byte, 1))
	return n == 1
}
