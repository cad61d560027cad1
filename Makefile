# Two commands do all: `make run` (serve on this machine) and `make test` (every check).
PYTHON  ?= python3
PORT    ?= 8080
DATA    ?= .data
WORKERS ?= 1

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-deps

.DEFAULT_GOAL := help
.PHONY: help run test test-slow test-all lint format openapi lock clean

help: ## Say what each command does.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

run: $(VENV)/.infra ## Serve on 127.0.0.1 (PORT=8080 DATA=.data WORKERS=1). Ctrl-C stops it.
	@exec $(BIN)/python -m infra.local_server --port $(PORT) --data $(DATA) --workers $(WORKERS)

test: lint ## Every check: format, lint, types, import direction, tests, coverage.
	$(BIN)/pytest --numprocesses 2 -m "not slow" --cov --cov-report=term --cov-fail-under=95

test-slow: $(VENV)/.tests
	$(BIN)/pytest --numprocesses 2 -m slow

test-all: test test-slow ## Every check, and the proofs that take longer.

lint: $(VENV)/.tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.tests ## Rewrite the code in the project's format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

openapi: $(VENV)/.tests ## Write docs/openapi.json anew from the code.
	$(BIN)/python -m infra.openapi

# Each lock holds all that its room needs, pinned by hash; a later one only adds to an earlier one.
COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --no-annotate

lock: $(VENV)/.tests ## Renew the three lock files (UPGRADE=--upgrade takes newer versions).
	$(COMPILE) $(UPGRADE) --group infra --group tests --output-file tests/requirements.lock
	$(COMPILE) --constraint tests/requirements.lock --group infra --output-file infra/requirements.lock
	$(COMPILE) --constraint tests/requirements.lock --output-file requirements.lock

$(VENV)/bin/python:
	@echo "Making the virtual environment $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.infra: infra/requirements.lock | $(VENV)/bin/python
	@echo "Installing what the server needs (once)"
	$(PIP) --requirement $<
	@touch $@

$(VENV)/.tests: tests/requirements.lock | $(VENV)/bin/python
	@echo "Installing what the checks need (once)"
	$(PIP) --requirement $<
	@touch $@ $(VENV)/.infra

clean: ## Remove the virtual environment and caches; data stays.
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .coverage .hypothesis
