#!/bin/sh
# Runs a command in every module of go.work, all of them even if one fails, and fails if any did:
#
#   scripts/each-module.sh go vet ./...
set -u

modules=$(go list -m -f '{{.Dir}}') || exit 1
root=$(pwd)
failed=
while read -r dir; do
  name=${dir#"$root"}
  echo "--- ${name:-/}: $*"
  (cd "$dir" && "$@" </dev/null) || failed="$failed ${name:-/}"
done <<LIST
$modules
LIST
[ -z "$failed" ] || { echo "failed in:$failed ($*)" >&2; exit 1; }
