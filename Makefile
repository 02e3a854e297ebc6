.DEFAULT_GOAL := help
.PHONY: help install lint types test ci full soak demo ui bench lock docker-lint

# The programs of the environment that bin/bootstrap makes; no target needs it to be activated.
VENV := .venv/bin

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## Set up Java, .venv and .interop (nothing happens if all is there)
	bin/bootstrap --interop

lint: install ## Check style, format, types and layers, without the tests
	bin/test --static

types: install ## Check types only (mypy, strict)
	bin/types

test: ## Run all checks and the quick tests
	bin/test

ci: ## Run all checks, the quick tests and a third of the others, as continuous integration does
	bin/test --ci

full: ## Run all checks and all tests
	bin/test --full

soak: ## Run all checks and all tests with larger bounds
	bin/test --soak

demo: ## Run the walk-through: real flights into a real table, through Airflow
	bin/demo

ui: ## Start Airflow's pages on this repository's dags and plugins
	bin/ui

bench: install ## Measure ingestion, compaction, clustering, many writers and the metadata table, beside Apache Hudi's own
	$(VENV)/python -m benchmarks.ingest
	$(VENV)/python -m benchmarks.compaction
	$(VENV)/python -m benchmarks.compaction.kernel
	$(VENV)/python -m benchmarks.compaction.memory
	$(VENV)/python -m benchmarks.clustering
	$(VENV)/python -m benchmarks.index
	$(VENV)/python -m benchmarks.concurrency
	$(VENV)/python -m benchmarks.growth
	$(VENV)/python -m benchmarks.shapes
	$(VENV)/python -m benchmarks.view
	$(VENV)/python -m benchmarks.growth.services
	$(VENV)/python -m benchmarks.clean
	$(VENV)/python -m benchmarks.cancel
	$(VENV)/python -m benchmarks.metadata
	$(VENV)/python -m benchmarks.metadata.builds
	$(VENV)/python -m benchmarks.metadata.ingestion --full
	$(VENV)/python -m benchmarks.metadata.listing
	$(VENV)/python -m benchmarks.metadata.skipping
	$(VENV)/python -m benchmarks.read
	$(VENV)/python -m benchmarks.page

lock: ## Take changed dependencies into the lock files (newest of all: bin/lock --upgrade)
	bin/lock

docker-lint: install ## Lint Dockerfile and docker-compose.yaml
	$(VENV)/hadolint --failure-threshold warning Dockerfile
	$(VENV)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yaml
