# Chores of the project. `make` and `make help` list them.

.DEFAULT_GOAL := help
.PHONY: help demo test fmt lint model versions bugs-long bench deny services-up services-down

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the whole story in one program: make demo DATABASE=postgres://... [KAFKA=host:port]
	@scripts/demo

test: ## check and test everything; brings PostgreSQL and Kafka up and stops them
	@scripts/test

fmt: ## format the code
	@cargo fmt --all

lint: ## clippy, warnings are errors
	@cargo clippy --workspace --all-targets -- -D warnings

model: ## only the model checker and the simulator
	@cargo test -p fencepost-sim

versions: ## the tests of the database side with PostgreSQL 14, 16, 17 and 18
	@scripts/test-versions

bugs-long: ## all tests, the long ones at their full length
	@FENCEPOST_TEST_SCALE=1 scripts/test

bench: ## the figures of docs/BENCHMARKS.md: relay and baseline against real servers
	@scripts/bench

deny: ## licences, advisories and bans of the dependencies (needs cargo-deny)
	@cargo deny check

services-up: ## start PostgreSQL and Kafka and leave them; eval "$(scripts/services up)" in a shell
	@scripts/services up

services-down: ## stop what services-up started
	@scripts/services down
