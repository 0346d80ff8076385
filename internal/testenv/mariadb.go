//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const noMariaDB = `mariadbd not found: run "make test" once, or install it (Debian: apt-get install mariadb-server)`

// MariaDB starts an empty MariaDB server for this test and stops it when the test ends. Everybody may do everything. It
// has one database, "test".
func MariaDB(t TB) *Database {
	t.Helper()
	return openDatabase(t, "mariadbd", mariadb{})
}

type mariadb struct{}

var mariadbPlaces = []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/opt/homebrew/opt/mariadb/bin"}

func (mariadb) initialize(dir string) error {
	install, err := program("mariadb-install-db", "/usr/bin", "/usr/local/bin", "/opt/homebrew/opt/mariadb/bin")
	if err != nil {
		return errors.New(noMariaDB)
	}
	args := append(mariadbBase(dir), "--auth-root-authentication-method=normal", "--skip-name-resolve")
	cmd := exec.Command(install, args...)
	proc, err := start("mariadb-install-db", cmd)
	if err != nil {
		return err
	}
	<-proc.Done()
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("testenv: mariadb-install-db: %s\nit wrote:\n%s", proc.exit(), proc.Log())
	}
	return nil
}

func mariadbBase(dir string) []string {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data")}
	if u, err := user.Current(); err == nil {
		args = append(args, "--user="+u.Username) // as root it must be told so
	}
	return args
}

func (mariadb) launch(dir string, port int) (*Process, error) {
	binary, err := program("mariadbd", mariadbPlaces...)
	if err != nil {
		return nil, errors.New(noMariaDB)
	}
	args := append(mariadbBase(dir),
		"--port="+strconv.Itoa(port), "--bind-address=127.0.0.1", "--socket="+mariadbSocket(dir),
		"--pid-file="+filepath.Join(dir, "pid"), "--skip-grant-tables", "--skip-name-resolve", "--skip-log-bin",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=32M",
		"--max-connections=300", "--innodb-use-native-aio=0")
	return start("mariadbd", exec.Command(binary, args...))
}

func mariadbSocket(dir string) string { return filepath.Join(dir, "socket") }

// ready reads the greeting that the server sends to whoever connects, through the socket in the server's own directory,
// so that no other server can be meant.
func (mariadb) ready(dir string, _ int, _ *Process) error {
	conn, err := net.DialTimeout("unix", mariadbSocket(dir), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	var head [5]byte // length, number, protocol version
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[4] != 10 {
		return fmt.Errorf("its greeting has protocol version %d", head[4])
	}
	return nil
}

func (mariadb) url(port int, database string) string {
	if database == "" {
		database = "test"
	}
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?parseTime=true", port, database)
}

func (mariadb) taken(log string) bool { return strings.Contains(log, bindInUse) }
