# What a contributor runs. Each target works on every module of go.work.

.DEFAULT_GOAL := help
.PHONY: help test lint bench fuzz need

TESTFLAGS    ?=
TEST_TIMEOUT ?= 15m
FUZZTIME     ?= 30s

# Built once into bin/; a new version here is a new file there.
GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_VERSION)

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: need ## Run all tests of all modules with the race detector (TESTFLAGS="-run X", TEST_TIMEOUT=15m)
	CGO_ENABLED=1 scripts/each-module.sh go test -race -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

lint: $(GOLANGCI) ## Check format, vet, tidy go.mod files, linters, shell scripts
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-ed:" $$unformatted; exit 1; }
	for script in .ci/run scripts/*.sh; do bash -n $$script || exit 1; done
	scripts/each-module.sh go vet ./...
	scripts/each-module.sh go mod tidy -diff
	$(GOLANGCI) config verify
	scripts/each-module.sh $(GOLANGCI) run ./...

bench: need ## Measure against the peers and print the tables (BENCHFLAGS="...")
	go run ./bench $(BENCHFLAGS)

fuzz: ## Run every fuzz target for FUZZTIME (30s)
	scripts/each-module.sh $(CURDIR)/scripts/fuzz.sh $(FUZZTIME)

need:
	@scripts/need.sh redis-server postgres mariadb cc

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION), once; a few minutes"
	GOBIN=$(CURDIR)/bin/build GOWORK=off go install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/build/golangci-lint $@
	rmdir bin/build
