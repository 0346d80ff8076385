#!/bin/sh
# Generates the Go code of every .proto file in the repository, next to the file. It needs protoc (Debian: apt-get install
# protobuf-compiler) and builds the two plugins itself, once, at the versions below.
set -eu
cd "$(dirname "$0")/.."

PROTOC_GEN_GO=google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC=google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

command -v protoc >/dev/null || {
  echo "protoc is not installed: apt-get install protobuf-compiler, or https://protobuf.dev/installation" >&2
  exit 1
}
bin=$PWD/bin/proto
mkdir -p "$bin"
for plugin in $PROTOC_GEN_GO $PROTOC_GEN_GO_GRPC; do
  name=${plugin##*/}
  [ -x "$bin/${name%@*}-${name#*@}" ] || {
    GOBIN=$bin GOWORK=off go install "$plugin"
    mv "$bin/${name%@*}" "$bin/${name%@*}-${name#*@}"
  }
  ln -sf "${name%@*}-${name#*@}" "$bin/${name%@*}"
done

# generate ROOT FILE...: paths are relative to ROOT, which is also where imports are looked up.
generate() {
  root=$1
  shift
  PATH=$bin:$PATH protoc -I "$root" -I proto \
    --go_out="$root" --go_opt=paths=source_relative \
    --go-grpc_out="$root" --go-grpc_opt=paths=source_relative "$@"
}

generate proto proto/latchkey/v1/lock.proto
for file in grpcmw/internal/*/*.proto examples/*/*/*.proto itest/*/*.proto; do
  [ -e "$file" ] || continue
  generate "$(dirname "$file")" "$file"
done
