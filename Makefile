# Every check of the project, each a target of its own; `make` alone lists them. CI runs `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The checks follow one another, cheap ones first; Cargo and Go use all cores themselves.
.NOTPARALLEL:

# A target is one line here: its name, what it needs first, and after ## what it does.

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sort | while IFS=$$'\t' read -r target text; do printf '  %-14s %s\n' "$$target" "$$text"; done

.PHONY: test
test: packages fmt clippy core unit deny test-judge tools test-tools fuzz-short test-cluster test-node ## Every check, as CI runs it
	@echo 'all checks passed'

.PHONY: build
build: ## Build the program for release
	cargo build --release --locked

.PHONY: sbom
sbom: ## Write the bill of materials (CycloneDX) to target/dist
	tests/support/cargo-tool cyclonedx --quiet --manifest-path injector/Cargo.toml --format json --spec-version 1.5 --override-filename outrigger.cdx
	@mkdir -p target/dist
	mv injector/outrigger.cdx.json target/dist/

# The names that .krew.yaml expects.
.PHONY: dist
dist: build sbom ## Write what a release publishes to target/dist: archive, digests, bill of materials
	tar -czf "target/dist/outrigger-linux-$$(dpkg --print-architecture).tar.gz" --owner=0 --group=0 -C target/release outrigger -C "$(CURDIR)" LICENSE
	cd target/dist && sha256sum outrigger-* *.json >SHA256SUMS && cat SHA256SUMS

# An image is pulled to every node when the webhook moves, and for the init container of every pod.
.PHONY: image
image: packages build ## Write the container image as an OCI archive to target/dist; it stays below 40 MB
	@mkdir -p target/dist
	tests/cluster/images/build outrigger target/release/outrigger target/dist/outrigger-image.tar
	@size=$$(stat -c %s target/dist/outrigger-image.tar); echo "target/dist/outrigger-image.tar: $$((size / 1000000)) MB"; ((size < 40000000))

.PHONY: fmt
fmt: ## Check the formatting of Rust and Go
	cargo fmt --check
	cargo fmt --check --manifest-path tests/fuzz/Cargo.toml
	@badly=$$(gofmt -l tests/yaml-judge tests/echo tests/cert-manager); [[ -z $$badly ]] || { echo "run gofmt -w on: $$badly" >&2; exit 1; }

.PHONY: clippy
clippy: ## Lint everything, warnings are errors
	cargo clippy --locked --all-targets --all-features -- -D warnings

.PHONY: core
core: ## Check that the core compiles without server and command line
	cargo check --locked --package outrigger --lib --no-default-features

.PHONY: unit
unit: ## Run the tests that need no other program
	cargo test --locked

.PHONY: deny
deny: ## Check licences, bans and sources of the crates; report advisories
	tests/support/cargo-tool deny check licenses bans sources
	@timeout 120 tests/support/cargo-tool deny check advisories || echo 'warning: there are advisories, or their list cannot be fetched; this fails no build' >&2

.PHONY: packages
packages: ## Install the Debian packages that are missing (as root)
	tests/install-packages

.PHONY: tools
tools: packages ## Build the programs that the tests run, into a cache outside the clone
	tests/print-env

.PHONY: env
env: ## Print the variables that name these programs, for the eval of a shell
	@tests/print-env

.PHONY: test-judge
test-judge: ## Test the programs in Go that the tests use
	cd tests/yaml-judge && go vet . && go test .
	cd tests/echo && go vet . && go test .
	cd tests/cert-manager && go vet .

.PHONY: test-tools
test-tools: packages ## Run the suites that need nginx, nftables or the YAML judge (as root)
	tests/run-suites tool-tests --locked

# Seconds for each fuzzer.
FUZZ_SECONDS ?= 60

.PHONY: fuzz
fuzz: packages ## Run each fuzzer for FUZZ_SECONDS (60), going on from what earlier runs learned
	tests/run-fuzzers $(FUZZ_SECONDS)

.PHONY: fuzz-short
fuzz-short: packages ## Run each fuzzer for half a minute
	tests/run-fuzzers 30

.PHONY: test-cluster
test-cluster: packages ## Run the suites against a real Kubernetes control plane
	tests/run-suites cluster-tests --locked

.PHONY: test-node
test-node: packages ## Run the suites against a whole cluster of one node (as root)
	tests/run-suites node-tests --locked

.PHONY: test-mtls
test-mtls: packages ## Run the suite of identities and mTLS between pods alone (as root)
	eval "$$(tests/print-env)"; cargo test --locked --features cluster-tests,node-tests,tool-tests --test node_mtls

.PHONY: test-steady
test-steady: packages ## Create pods for minutes while all kinds of things happen to Outrigger; ends with the count (as root)
	eval "$$(tests/print-env)"; TEST_STEADY_SECONDS=60 cargo test --locked --features cluster-tests,node-tests,tool-tests --test cluster_steady -- --nocapture
	@cat target/tmp/steady.txt

.PHONY: cluster
cluster: packages ## Start a cluster of one node with Outrigger and leave it running (as root)
	tests/run-example cluster up

.PHONY: cluster-down
cluster-down: packages ## Remove such clusters, and what a crashed test left (as root)
	tests/run-example cluster down

.PHONY: bench
bench: ## Run the benchmarks
	cargo bench --locked

.PHONY: bench-proxy
bench-proxy: packages ## Measure what the proxy costs a call, and write docs/performance.md (as root)
	tests/run-example proxy_cost --write docs/performance.md

.PHONY: clean-cache
clean-cache: ## Remove the cache of test programs
	rm -rf "$${TEST_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/outrigger}/tools"
