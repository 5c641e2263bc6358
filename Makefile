# `make` alone lists the targets. Everything happens in $(VENV); nothing is installed into the system's Python.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
INVENTORY ?= inventories/localhost

# Ansible refuses to start in a locale that is missing or not UTF-8; this one is built into the C library.
export LC_ALL := C.UTF-8
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: ARGS (handed on, e.g. make test ARGS="-k fio"), VENV, INVENTORY, LABCTL_PYTHON, LABCTL_UV=none"

.PHONY: quickstart
quickstart: venv system ## Measure this machine (study quickstart) and write a report
	@labctl run quickstart -i $(INVENTORY) $(ARGS)

.PHONY: test
test: venv-dev system-test ## Run the tests; ARGS="-k fio" selects
	@pytest $(ARGS)

.PHONY: lint
lint: venv-dev ## Check style, types, roles, YAML, spelling and shell scripts
	@tools/lint.sh $(ARGS)

.PHONY: format
format: venv-dev ## Let ruff rewrite the Python files
	@ruff check --fix --quiet . ; ruff format --quiet .

.PHONY: bench
bench: venv-dev system ## Measure labctl's own overhead; writes build/bench.md and build/bench.json
	@python -m bench $(ARGS)

.PHONY: docs
docs: venv-dev ## Generate docs/reference, docs/support.md and the README files of the roles
	@tools/docs.sh

.PHONY: build
build: venv-dev ## Build wheel, source archive and collection into dist/
	@tools/build.sh

.PHONY: lock
lock: ## Resolve the dependencies anew (needs uv)
	@tools/lock.sh

.PHONY: venv venv-dev system system-test
venv: ## Make the environment only
	@tools/venv.sh runtime $(VENV)
venv-dev: ## Make the environment with the tools of developers
	@tools/venv.sh dev $(VENV)
system: ## Install the system tools that measuring needs
	@tools/system-packages.sh run
system-test: ## Install the system tools that the tests need
	@tools/system-packages.sh test

# The venv module of the system's Python may be among the packages.
venv: system
venv-dev: system

.PHONY: clean
clean: ## Remove what was made here, but not records
	rm -rf $(VENV) build dist .cache .ansible .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
