# The one entry for users and developers. `make help` lists the targets.
#
#   make demo ARGS=--once          arguments of the demo
#   make test ARGS="-k intake"     arguments of pytest
#   make bench BENCH="NAME ..."    some benchmarks only
#   make test PYTHON=python3.12 VENV=build/python3.12    another interpreter, beside .venv

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BENCH  ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV_VERSION := 0.13.9
# Whose dashboard the images carry; the same as in pyproject.toml.
RAY_VERSION := 2.55.1

# With ARGS that choose tests, one of the two runs may have none (pytest's status 5).
NONE_IS_FINE := $(if $(ARGS),|| test $$? -eq 5)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lint format type test kubernetes test-api test-e2e bench demo fidelity docs lock clean same-python

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lint: $(VENV)/.dev  ## Check style, formatting and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev  ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(VENV)/.dev  ## Check types (mypy --strict)
	$(BIN)/mypy

test: $(VENV)/.dev  ## Run the whole test suite
	$(BIN)/pytest -n 2 -m "not ray and not browser and not e2e" $(ARGS) $(NONE_IS_FINE)
	$(BIN)/pytest -m "ray or browser" $(ARGS) $(NONE_IS_FINE)

bench: $(VENV)/.dev  ## Run the benchmarks; figures go to build/bench.json
	$(BIN)/python -m tests.bench $(BENCH)

kubernetes: $(VENV)/.dev  ## Build the Kubernetes that tests start, once into a cache (16 minutes)
	$(BIN)/python -m tests.cluster.build api

test-api: kubernetes  ## Run the tests with a real Kubernetes API server only
	CI=$${CI:-true} $(BIN)/pytest -n 2 --dist=loadfile -m kube $(ARGS)

test-e2e: $(VENV)/.dev  ## Run real Ray pods on a Kubernetes of its own (root; builds it and the images once: 15 minutes)
	$(BIN)/python -m tests.cluster.build node
	CI=$${CI:-true} $(BIN)/pytest -m e2e $(ARGS)

demo: $(VENV)/.demo  ## Collect a real Ray session, end it, browse it (ARGS=--once: check and end)
	$(BIN)/python -m demo $(ARGS)

fidelity: $(VENV)/.dev  ## Compare live dashboard and history server on a rich session
	$(BIN)/python -m tests.fidelity run rich $(ARGS)

docs: $(VENV)/.dev  ## Generate configuration, fidelity and performance pages from code and last runs
	$(BIN)/python -m tests.docs.configuration
	$(BIN)/python -m tests.fidelity docs
	test ! -f build/bench.json || $(BIN)/python -m tests.bench --write-docs

# uv resolves for all platforms and Python versions at once; users need pip only.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-emit-package ray-history-server
lock: $(VENV)/.dev  ## Make the lock files anew from pyproject.toml
	$(PIP) install --quiet uv==$(UV_VERSION)
	$(LOCK) pyproject.toml --extra dev -o requirements/dev.lock
	$(LOCK) pyproject.toml --extra demo -c requirements/dev.lock -o requirements/demo.lock
	$(LOCK) pyproject.toml --extra collector -c requirements/dev.lock -o requirements/collector.lock
	$(LOCK) pyproject.toml --extra historyserver -c requirements/dev.lock -o requirements/historyserver.lock
	$(LOCK) pyproject.toml --extra webhook --extra certs -c requirements/dev.lock -o requirements/webhook.lock
	echo "ray==$(RAY_VERSION)" | $(LOCK) - --no-deps -o requirements/dashboard.lock
	echo "setuptools>=77" | $(LOCK) - -o requirements/build.lock

clean:  ## Remove what was built; keeps the virtual environment and the demo's data
	rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# One environment for all; the demo needs a part of it only. A stamp is newer than its lock file.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: $(PYTHON) not found: install Python 3.11 or newer, or say PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $$($(PYTHON) --version) is too old: 3.11 or newer is needed (PYTHON=python3.12 make ...)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
	  echo "make: $(PYTHON) cannot make virtual environments: install its venv package (Debian: apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# Only when PYTHON is said: a shell whose python3 changes keeps its environment.
same-python: | $(VENV)/bin/python
ifneq ($(origin PYTHON),file)
	@command -v $(PYTHON) >/dev/null || { echo "make: PYTHON=$(PYTHON) not found" >&2; exit 2; }
	@of() { "$$1" -c 'import sys; print("Python %d.%d" % sys.version_info[:2])'; }; \
	has=$$(of $(BIN)/python); asked=$$(of $(PYTHON)); test "$$has" = "$$asked" || { \
	  echo "make: $(VENV) has $$has, but $(PYTHON) is $$asked: say VENV=build/venv too, or remove $(VENV)" >&2; exit 2; }
endif

define install
	@echo "installing $(1) into $(VENV) (about a minute the first time)"
	@$(PIP) install --quiet --require-hashes -r requirements/build.lock -r $(1)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
endef

$(VENV)/.demo: requirements/demo.lock requirements/build.lock pyproject.toml | same-python
	$(call install,requirements/demo.lock)
	@touch $@

$(VENV)/.dev: requirements/dev.lock requirements/build.lock pyproject.toml | same-python
	$(call install,requirements/dev.lock)
	@touch $@ $(VENV)/.demo
