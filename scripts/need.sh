#!/bin/sh
# Makes sure that what the tests run is installed, through the system's package manager:
#
#   scripts/need.sh redis-server cc
#
# As root, or where sudo asks for no password, it installs what is missing; else it says what to install and fails.
# A new thing is a line in have() and one in package_of().
set -eu

# The file that tells Debian whether a package may start its service (a variable for the script's own test).
policy=${NEED_POLICY_FILE:-/usr/sbin/policy-rc.d}

die() {
  echo "$*" >&2
  exit 1
}

# found PROGRAM DIRECTORY...: is it in PATH or one of those?
found() {
  program=$1
  shift
  command -v "$program" >/dev/null && return
  for dir in "$@"; do
    [ -x "$dir/$program" ] && return
  done
  return 1
}

# have THING: is it there?
have() {
  case $1 in
    redis-server) [ -n "${LATCHKEY_REDIS_SERVER:-}" ] || command -v redis-server >/dev/null ;;
    postgres) found postgres /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin ;;
    mariadb) found mariadbd /usr/sbin /usr/libexec /usr/local/sbin /opt/homebrew/opt/mariadb/bin ;;
    cc) command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null ;;
    *) die "need.sh: nobody has told me what $1 is" ;;
  esac
}

# manager: which package manager this system has.
manager() {
  for m in apt-get dnf apk pacman zypper brew; do
    if command -v "$m" >/dev/null; then
      echo "$m"
      return
    fi
  done
}

# package_of THING MANAGER: the packages that bring it.
package_of() {
  case $1/$2 in
    redis-server/apt-get) echo redis-server ;;
    redis-server/*) echo redis ;;
    postgres/dnf) echo postgresql-server ;;
    postgres/zypper) echo postgresql-server ;;
    postgres/*) echo postgresql ;;
    mariadb/brew | mariadb/zypper | mariadb/pacman) echo mariadb ;;
    mariadb/apk) echo mariadb mariadb-client ;;
    mariadb/*) echo mariadb-server ;;
    cc/apt-get) echo gcc libc6-dev ;;
    cc/apk) echo gcc musl-dev ;;
    cc/dnf) echo gcc glibc-devel ;;
    cc/*) echo gcc ;;
  esac
}

# install_command MANAGER: how it installs without asking.
install_command() {
  case $1 in
    apt-get) echo apt-get install -y --no-install-recommends ;;
    dnf) echo dnf install -y ;;
    apk) echo apk add ;;
    pacman) echo pacman -S --noconfirm --needed ;;
    zypper) echo zypper --non-interactive install ;;
    brew) echo brew install ;;
  esac
}

# as_root COMMAND...: fails at once where that would take a password.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

may_install() {
  [ "$1" = brew ] || [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# apt PACKAGE...: installs without starting the service that a server's package brings; the tests start servers of their
# own on free ports.
apt() {
  held=
  if [ ! -e "$policy" ]; then
    held=yes
    as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$policy"
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
  fi
  # The lists may be missing or old: then they are fetched, and only then.
  as_root env DEBIAN_FRONTEND=noninteractive $(install_command apt-get) "$@" ||
    { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive $(install_command apt-get) "$@"; } ||
    return 1
  if [ -n "$held" ]; then
    as_root rm -f "$policy"
    trap - EXIT HUP INT TERM
  fi
}

missing=
for thing in "$@"; do
  have "$thing" || missing="$missing $thing"
done
[ -n "$missing" ] || exit 0

m=$(manager)
[ -n "$m" ] || die "not installed:$missing. Install it and run this again (no package manager that I know is here)."
packages=
for thing in $missing; do
  packages="$packages $(package_of "$thing" "$m")"
done
may_install "$m" ||
  die "not installed:$missing. Run this as root, then again what you ran: $(install_command "$m")$packages"

echo "not installed:$missing; installing$packages with $m" >&2
failed="could not install$packages with $m; see above. By hand: $(install_command "$m")$packages"
case $m in
  apt-get) apt $packages >&2 || die "$failed" ;;
  brew) $(install_command brew) $packages >&2 || die "$failed" ;;
  *) as_root $(install_command "$m") $packages >&2 || die "$failed" ;;
esac
for thing in $missing; do
  have "$thing" || die "installed$packages, but $thing is still not in PATH ($PATH)"
done
