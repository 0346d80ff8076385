#!/bin/sh
# Runs every fuzz target of the module in the current directory for the time given: scripts/fuzz.sh 30s
set -eu

time=$1
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  listed=$(go test -list '^Fuzz' "$package") # the targets, then a line with the package's own result
  for target in $(echo "$listed" | sed -n '/^Fuzz/p'); do
    echo "--- $package $target for $time"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
  done
done
