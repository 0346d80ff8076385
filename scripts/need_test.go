//go:build unix

package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Stand-ins for the programs that need.sh calls. Each writes what it was asked into the file asked.
const (
	rootUser  = `echo 0`
	plainUser = `echo 1000`
	// sudo without a password, and one that asks for it.
	sudo       = `[ "$1" = -n ] && shift && echo "sudo $*" >>"$DIR/asked" && exec "$@"`
	strictSudo = `exit 1`
	// installs is a package manager that works. While it runs, the policy file must forbid services to start.
	installs = `echo "${0##*/} $*" >>"$DIR/asked"
if [ -e "$DIR/policy" ]; then echo "policy: $("$DIR/policy"; echo $?)" >>"$DIR/asked"; fi
: >"$DIR/redis-server" && chmod 755 "$DIR/redis-server"`
	// needsUpdate is one whose lists are missing until they are fetched.
	needsUpdate = `echo "${0##*/} $*" >>"$DIR/asked"
case $1 in
  update) : >"$DIR/updated" ;;
  install) [ -e "$DIR/updated" ] || exit 100; : >"$DIR/redis-server"; chmod 755 "$DIR/redis-server" ;;
esac`
	fails   = `echo "${0##*/} $*" >>"$DIR/asked"; exit 1`
	nothing = `echo "${0##*/} $*" >>"$DIR/asked"`
)

func TestNeed(t *testing.T) {
	const (
		aptInstall = "apt-get install -y --no-install-recommends redis-server\n"
		byHand     = "apt-get install -y --no-install-recommends redis-server\n"
	)
	for _, tt := range []struct {
		name     string
		programs map[string]string
		env      string
		asked    string // what was done
		says     string // part of what is said; with "" nothing may be said
		fails    bool
	}{
		{name: "already there", programs: map[string]string{"redis-server": "", "id": rootUser, "apt-get": installs}},
		{name: "another server named", env: "LATCHKEY_REDIS_SERVER=/opt/valkey-server"},
		{
			name:     "root installs and the service is not started",
			programs: map[string]string{"id": rootUser, "apt-get": installs},
			asked:    aptInstall + "policy: 101\n",
			says:     "installing redis-server with apt-get",
		},
		{
			name:     "lists are fetched when they are missing",
			programs: map[string]string{"id": rootUser, "apt-get": needsUpdate},
			asked:    aptInstall + "apt-get update\n" + aptInstall,
			says:     "installing redis-server with apt-get",
		},
		{
			name:     "apk",
			programs: map[string]string{"id": rootUser, "apk": installs},
			asked:    "apk add redis\n",
			says:     "installing redis with apk",
		},
		{
			name:     "brew without root",
			programs: map[string]string{"id": plainUser, "brew": installs},
			asked:    "brew install redis\n",
			says:     "installing redis with brew",
		},
		{
			name:     "sudo without a password",
			programs: map[string]string{"id": plainUser, "sudo": sudo, "dnf": installs},
			asked:    "sudo true\nsudo dnf install -y redis\ndnf install -y redis\n",
			says:     "installing redis with dnf",
		},
		{
			name:     "sudo with a password",
			programs: map[string]string{"id": plainUser, "sudo": strictSudo, "apt-get": installs},
			says:     "not installed: redis-server. Run this as root, then again what you ran: " + byHand,
			fails:    true,
		},
		{
			name:     "no root and no sudo",
			programs: map[string]string{"id": plainUser, "apt-get": installs},
			says:     "not installed: redis-server. Run this as root, then again what you ran: " + byHand,
			fails:    true,
		},
		{
			name:     "no package manager",
			programs: map[string]string{"id": rootUser},
			says:     "not installed: redis-server. Install it and run this again",
			fails:    true,
		},
		{
			name:     "the package manager fails",
			programs: map[string]string{"id": rootUser, "apt-get": fails},
			asked:    aptInstall + "apt-get update\n",
			says:     "could not install redis-server with apt-get; see above. By hand: " + byHand,
			fails:    true,
		},
		{
			name:     "the package brings no server",
			programs: map[string]string{"id": rootUser, "apt-get": nothing},
			asked:    aptInstall,
			says:     "installed redis-server, but redis-server is still not in PATH",
			fails:    true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"chmod", "env", "rm", "sh", "true"} {
				link(t, dir, name)
			}
			for name, body := range tt.programs {
				write(t, filepath.Join(dir, name), "#!/bin/sh\n"+body+"\n")
			}
			said, err := need(dir, tt.env)
			if (err != nil) != tt.fails {
				t.Errorf("ended with %v, said:\n%s", err, said)
			}
			if asked := read(t, filepath.Join(dir, "asked")); asked != tt.asked {
				t.Errorf("did:\n%s\nwant:\n%s", asked, tt.asked)
			}
			if !strings.Contains(said, tt.says) || (tt.says == "" && said != "") {
				t.Errorf("said:\n%s\nwant:\n%s", said, tt.says)
			}
			if _, err := os.Stat(filepath.Join(dir, "policy")); err == nil {
				t.Error("the policy file was left behind: no service would ever start again")
			}
		})
	}
}

func TestNeedLeavesAPolicyOfTheSystemAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"chmod", "env", "rm", "sh", "true"} {
		link(t, dir, name)
	}
	write(t, filepath.Join(dir, "id"), "#!/bin/sh\n"+rootUser+"\n")
	write(t, filepath.Join(dir, "apt-get"), "#!/bin/sh\n"+installs+"\n")
	const own = "#!/bin/sh\nexit 0\n"
	write(t, filepath.Join(dir, "policy"), own)
	if said, err := need(dir, ""); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got := read(t, filepath.Join(dir, "policy")); got != own {
		t.Errorf("the system's policy file became %q", got)
	}
}

// need runs need.sh where only the programs in dir exist.
func need(dir, env string) (said string, err error) {
	cmd := exec.Command("/bin/sh", "need.sh", "redis-server")
	cmd.Env = []string{"PATH=" + dir, "DIR=" + dir, "NEED_POLICY_FILE=" + filepath.Join(dir, "policy"), env}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func link(t *testing.T, dir, name string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
