# One command for each task; `make` alone lists them.
SHELL := /bin/bash
CARGO ?= cargo

# Number of random and mutated frames in the robustness tests; `make test` sends a hundredth of the soak.
FRAMES ?= 100000
SOAK_FRAMES ?= 10000000
# Number of guest faults; `make test` has a hundredth of these.
SOAK_FAULTS ?= 1000000
# Packets over which each scheme is compared with itself as a guest; `make test` has a tenth of these.
SOAK_PACKETS ?= 1000000
# Keys for which each list of rules is compared with the same list tried in order.
SOAK_KEYS ?= 1000000
# Items that cross each kind of queue between two threads; `make test` has a hundredth of these.
SOAK_TRANSFERS ?= 1000000000
# Random sets of reserved flows in virtual time; `make test` has 6.
SOAK_SETS ?= 1000
# Subscribers measured at once with the kernel's TCP; `make test` has a fifth of these.
SOAK_SUBSCRIBERS ?= 100
# Seconds for each fuzz target, and which ones.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/targets/*.rs)))
# Build profile: `release` takes minutes; `dist` is that of packages, for published figures.
PROFILE ?= release
# Arguments of `switchpath demo` and `switchpath bench`, as in `make demo ARGS='--seconds 30'`.
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build test quick bench reproduce soak cross loom tsan fuzz audit fmt clean

help: ## list these targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: ## set up, build and watch real hosts talk through Switchpath
	@.ci/setup demo
	$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- demo $(ARGS)

build: ## build the router and its laboratory: target/release/switchpath and switchpath-lab; PROFILE=dist as packages are
	@.ci/setup build
	$(CARGO) build --locked --profile $(PROFILE) --bins

test: ## set up, then format, lints, fuzz targets compile, and every test
	@.ci/setup test
	@SWITCHPATH_FRAMES=$${SWITCHPATH_FRAMES:-$(FRAMES)} .ci/test

quick: ## the dev loop: lints and unit tests without set-up; of one crate with P=plane
	$(CARGO) clippy --quiet $(if $(P),-p $(P),--workspace) --all-targets -- -D warnings
	$(CARGO) test --quiet $(if $(P),-p $(P),--workspace) --lib --bins

bench: ## measure the forwarding path against its budgets; PROFILE=dist for figures to publish
	@.ci/setup build
	$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- bench $(ARGS)

reproduce: ## run every published experiment in virtual time; results/index.html shows them
	@.ci/setup build
	$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- reproduce --out results $(ARGS)

soak: ## long: ten million frames, random and mutated (SOAK_FRAMES), a million faults of guests, a million packets of each scheme as a guest, a million keys in each list of rules and in filters of tenants, a thousand million items through each queue between threads, a thousand random sets of reservations, plans of a hundred subscribers; as root, reservations on real packets, and published experiments on real packets, three hours, or with ARGS='--repeat 1' one
	@.ci/setup build
	SWITCHPATH_FRAMES=$(SOAK_FRAMES) .ci/cargo-test --profile soak -p plane -p plan --test soak --test robust
	SWITCHPATH_FAULTS=$(SOAK_FAULTS) SWITCHPATH_PACKETS=$(SOAK_PACKETS) \
		.ci/cargo-test --profile soak -p extension --test guests -- containment conformance
	SWITCHPATH_KEYS=$(SOAK_KEYS) .ci/cargo-test --profile soak -p classifier --test lists --test tenants
	SWITCHPATH_SETS=$(SOAK_SETS) .ci/cargo-test --profile soak -p sim --lib reservation_sets
	SWITCHPATH_TRANSFERS=$(SOAK_TRANSFERS) .ci/cargo-test --profile soak -p io --test transfers -- --nocapture --test-threads 1
	SWITCHPATH_SUBSCRIBERS=$(SOAK_SUBSCRIBERS) .ci/cargo-test --profile soak -p control --test shares_veth
	@if [ "$$(id -u)" = 0 ]; then \
		$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- bench promises --real && \
		$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- reproduce scheduling --real --out results/real $(ARGS) && \
		$(CARGO) run --locked --profile $(PROFILE) --bin switchpath-lab -- reproduce slices --real --out results/real-slices $(ARGS); \
	else echo "reservations and published experiments on real packets are left out: they need root"; fi

cross: ## build for 64-bit Arm and run the unit tests there, emulated
	@.ci/setup cross
	SWITCHPATH_FRAMES=2000 .ci/cross --workspace --lib --bins --exclude io

loom: ## check protocols between threads in every interleaving that the memory model allows
	@.ci/setup build
	.ci/loom --profile soak -p packet -p fib -p classifier -p plane -p esp

tsan: ## ephemeral state on real threads under the thread sanitizer; needs a nightly toolchain
	@.ci/setup build
	RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
		TSAN_OPTIONS="suppressions=$(CURDIR)/.ci/tsan.suppressions" \
		$(CARGO) +nightly test --locked --target "$$(rustc -vV | sed -n 's/^host: //p')" -p esp --lib \
		--target-dir target/tsan -- --test-threads 1 workers cleaner

fuzz: ## fuzz each target for FUZZ_SECONDS; needs a nightly toolchain
	@.ci/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

audit: ## licences, sources, duplicate and vulnerable dependencies
	@.ci/audit

fmt: ## format everything
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml
	$(CARGO) fmt --manifest-path sdk/rust/Cargo.toml -p switchpath-guest -p native
	rustfmt --edition 2024 sdk/rust/start/lib.rs sdk/rust/start/function.rs examples/guests/*.rs

clean: ## remove build output
	$(CARGO) clean
	rm -rf fuzz/target fuzz/artifacts
