# Main commands: `make run` (serve on this machine) and `make test` (checks).
PYTHON  ?= python3
PORT    ?= 8080
DATA    ?=
WORKERS ?= 1
KEYS    ?=
LOG     ?= info
OPS     ?=
DOCS    ?= on
ARCHITECTURE ?= arm64
OUTPUT  ?= .build/app
DIST    ?= dist
STAGE   ?= .build/typescript
VENDOR  ?= functions/console/static/vendor
TAG     ?=
PARAMETERS ?=
ROOM    ?=
# Ignores the environment, because some shells set HOST to the machine name.
HOST := 127.0.0.1
AWS_PORT ?= 4566

VENV ?= .venv
BIN  := $(VENV)/bin
TOOLS := sam checkov ministack cddl cose audit client files envoy go hosts kubernetes tenuo openbao otel tlog tokens tuf witness site
NODE_TOOLS := engines oauth oidc openapi quint runtimes typescript workerd

# The source tree can be read-only if CACHES and VENV are elsewhere.
CACHES ?= $(CURDIR)
export COVERAGE_FILE := $(CACHES)/.coverage
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHES)/.hypothesis
export MYPY_CACHE_DIR := $(CACHES)/.mypy_cache
export RUFF_CACHE_DIR := $(CACHES)/.ruff_cache
PYTEST := $(BIN)/pytest --override-ini cache_dir="$(CACHES)/.pytest_cache" --numprocesses 3
# Every process would load the API document for the fuzzer, although its tests are slow.
FAST := --dist worksteal -m "not slow and not long" -p no:schemathesis --ignore tests/infra/test_fuzzed_api.py

.DEFAULT_GOAL := help
.PHONY: help supported run build probe-writes wheels typescript release-rehearsal release-files sbom site audit aws-local test test-only test-coverage test-slow test-all test-engines bench lint format format-console written vendor pictures lock clean

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.infra ## Serve on 127.0.0.1 (HOST=127.0.0.1 PORT=8080 DATA=.data KEYS=.data/master.key WORKERS=1 LOG=info OPS= DOCS=on). Ctrl-C stops it.
	@exec $(BIN)/python -m infra.cli serve --host $(HOST) --port $(PORT) --workers $(WORKERS) \
		--log-level $(LOG) --docs $(DOCS) $(if $(DATA),--data "$(DATA)") $(if $(KEYS),--key-file "$(KEYS)") \
		$(if $(OPS),--ops-address $(OPS))

build: $(VENV)/.infra ## Build the Lambda artefact in .build/app (ARCHITECTURE=arm64 OUTPUT=.build/app PARAMETERS=).
	@$(BIN)/python -m infra.build --architecture $(ARCHITECTURE) --output $(OUTPUT) \
		$(PARAMETERS:%=--parameter %)

probe-writes: $(VENV)/.infra ## Check whether IAM evaluates conditions per item, with a temporary table and role.
	@$(BIN)/python -m infra.write_probe

wheels: $(VENV)/.infra ## Build the wheels of the server and the Python client in dist/ (DIST=dist).
	@for source in . infra/clients/python; do \
		$(BIN)/uv --quiet build --wheel --out-dir $(DIST) $$source || exit; \
	done
	@ls $(DIST)/*.whl

typescript: .tools/typescript/.installed ## Pack the TypeScript client in dist/ (DIST=dist).
	@rm -rf $(STAGE)
	@mkdir -p $(STAGE) $(DIST)
	@cp -R infra/clients/typescript/*.json infra/clients/typescript/src LICENSE $(STAGE)
	@ln -s $(CURDIR)/.tools/typescript/node_modules $(STAGE)
	@.tools/typescript/node_modules/.bin/tsc --project $(STAGE)
	@npm pack --silent --ignore-scripts --pack-destination $(DIST) $(abspath $(STAGE))

RELEASE := audit files go kubernetes typescript
REHEARSAL := $(CURDIR)/.build/release
OFFLINE := --offline --registry http://127.0.0.1:9 --ignore-scripts --silent
release-rehearsal: $(VENV)/.tests $(RELEASE:%=.tools/%/.installed) ## Build a release of the commit twice in dist/, compare, and test it (TAG=v0.4.0).
	@$(BIN)/python -m infra.release version --tag "$(TAG)"
	@rm -rf $(DIST) $(REHEARSAL)
	@for tree in first second tagged; do \
		mkdir -p $(REHEARSAL)/$$tree && git archive HEAD | tar -xC $(REHEARSAL)/$$tree || exit; done
	@$(MAKE) --silent release-files TREE=$(REHEARSAL)/first DIST=$(abspath $(DIST))
	@$(MAKE) --silent release-files TREE=$(REHEARSAL)/second DIST=$(REHEARSAL)/dist
	@.tools/files/bin/twine check --strict $(DIST)/*.whl $(DIST)/*.tar.gz
	@$(BIN)/uv --quiet venv --python $(BIN)/python $(REHEARSAL)/venv
	@$(BIN)/uv --quiet pip install --python $(REHEARSAL)/venv --constraint infra/requirements.lock $(DIST)/*.whl
	@$(BIN)/python -m infra.release check --dist $(DIST) --folder $(REHEARSAL)
	@echo '{"private": true}' >$(REHEARSAL)/package.json
	@cd $(REHEARSAL) && npm pack $(OFFLINE) $(MODULES)/@noble/hashes >/dev/null
	@cd $(REHEARSAL) && npm install $(OFFLINE) $(abspath $(DIST))/rescind-authorizer-*.tgz noble-*.tgz
	@for client in "$(REHEARSAL)/venv/bin/python -m rescind_authorizer" $(REHEARSAL)/node_modules/.bin/rescind-authorizer \
		$(DIST)/rescind-authorizer-*-$$($(GO) env GOOS)-$$($(GO) env GOARCH); do \
		said=$$($(BIN)/python -m tests.conformance -- $$client conformance) || { echo "$$said"; exit 1; }; \
		echo "$$client: $$(echo "$$said" | tail -n 1)"; done
	@cd $(DIST) && sums=$$(sha256sum *) && echo "$$sums" | tee SHA256SUMS

# Go works offline, and caches builds in `.tools`.
GO = GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=0 GOCACHE=$(CURDIR)/.tools/go/cache \
	$(wildcard $(CURDIR)/.tools/go/lib/python*/site-packages/go/bin/go)
RELEASED = $$(sed -n 's/__version__ = "\(.*\)"/\1/p' $(CURDIR)/shared/__init__.py)
# The commit time makes wheels reproducible.
release-files: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release-files: # Builds all release files of the checkout TREE in DIST.
	@echo "Building in $(TREE)"
	@mkdir -p $(DIST)
	@for source in . infra/clients/python; do $(BIN)/uv --quiet build --out-dir $(DIST) $(TREE)/$$source || exit; done
	@rm -f $(DIST)/.gitignore
	@ln -s $(CURDIR)/.tools $(TREE)/.tools
	@$(MAKE) --silent -C $(TREE) -o .tools/typescript/.installed typescript DIST=$(DIST)
	@cd $(TREE)/infra/clients/go && for platform in linux-amd64 linux-arm64 darwin-arm64; do \
		GOOS=$${platform%-*} GOARCH=$${platform#*-} $(GO) build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" \
		-o $(DIST)/rescind-authorizer-$(RELEASED)-$$platform ./cmd/rescind-authorizer || exit; done
	@$(BIN)/python -m infra.release pack --folder $(TREE) --dist $(DIST)
	@cp $(TREE)/infra/alerts.yaml $(TREE)/infra/dashboard.json $(DIST)
	@for lock in requirements infra/requirements; do \
		.tools/audit/bin/cyclonedx-py requirements $(TREE)/$$lock.lock --output-reproducible --output-format JSON \
		--output-file $(DIST)/rescind-$$(echo $$lock | tr / -).cdx.json || exit; done

sbom: .tools/audit/.installed ## Write an SBOM of the Lambda artefact (CycloneDX) to .build/sbom.json.
	@mkdir -p .build
	@.tools/audit/bin/cyclonedx-py requirements requirements.lock --output-reproducible \
		--output-format JSON --output-file .build/sbom.json

site: $(VENV)/.infra .tools/site/.installed ## Build the documentation with search in .build/site/html/VERSION, and check its links (TAG=main).
	@$(BIN)/python -m infra.site .build/site --tag $(or $(TAG),main)

audit: .tools/audit/.installed ## Check Lambda and server dependencies for known vulnerabilities (PyPI).
	@for lock in requirements.lock infra/requirements.lock; do \
		.tools/audit/bin/pip-audit --requirement $$lock --disable-pip --no-deps --strict || exit; \
	done

aws-local: .tools/ministack/.installed ## Serve a local AWS emulator for SAM local (HOST=127.0.0.1 AWS_PORT=4566).
	@exec $(BIN)/python -m tests.aws_local --host $(HOST) --port $(AWS_PORT)

test: lint ## Check format, lint, types and imports, and run all fast tests.
	$(PYTEST) $(FAST)

test-only: $(VENV)/.tests ## Run only the tests of `make test` (ROOM=tests/web PYTHON=… VENV=…).
	$(PYTEST) $(FAST) $(ROOM)

test-coverage: $(VENV)/.tests ## Run the tests of `make test`, and require 95 % branch coverage.
	$(PYTEST) $(FAST) --cov --cov-report=term --cov-fail-under=95

test-slow: $(VENV)/.tests $(TOOLS:%=.tools/%/.installed) $(NODE_TOOLS:%=.tools/%/.installed)
	$(PYTEST) -m "slow and not long"

test-all: lint test-coverage test-slow ## Run all checks, fast tests and slow tests.

# The table reports unavailable engines, which are no failure.
test-engines: $(VENV)/.tests ## Run contract suites and API tests on all available engines, and print a table.
	@for tool in ministack openbao engines; do $(MAKE) --silent .tools/$$tool/.installed || true; done
	@$(BIN)/python -m tests.engines

bench: $(VENV)/.tests ## Run the benchmarks, with a comparison for each figure (BENCH_ONLY=… BENCH_OUT=….json).
	@$(BIN)/python -m tests.bench

lint: $(VENV)/.tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.tests ## Rewrite the code in the project's format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@command -v npm >/dev/null && $(MAKE) --silent format-console || echo "The console is formatted by Prettier, which needs npm."

format-console: .tools/openapi/.installed
	@.tools/openapi/node_modules/.bin/prettier --write --log-level warn functions/console/static

written: $(VENV)/.tests ## Regenerate openapi.json, AUTH-4 and APPROVAL-1 from the code.
	$(BIN)/python -m infra.openapi
	$(BIN)/python -m tests.kit.endpoints
	$(BIN)/python -m tests.data_model

LIT := .tools/openapi/node_modules/lit-html
MODULES := $(CURDIR)/.tools/typescript/node_modules
vendor: .tools/openapi/.installed .tools/typescript/.installed ## Copy lit-html into the console, and bundle the trust module of the TypeScript client.
	@mkdir -p $(VENDOR)/lit-html/directives
	@for file in lit-html directive directive-helpers directives/repeat; do \
		sed '/^..# sourceMappingURL/d' $(LIT)/$$file.js >$(VENDOR)/lit-html/$$file.js; done
	@cp $(LIT)/LICENSE $(VENDOR)/lit-html
	@sed -n 's/^  "version": "\(.*\)",/lit-html \1/p' $(LIT)/package.json >$(VENDOR)/lit-html/VERSION
	@NODE_PATH=$(MODULES) $(MODULES)/.bin/esbuild infra/clients/typescript/src/console.ts --bundle --format=esm \
		--preserve-symlinks --log-level=warning --outfile=$(VENDOR)/rescind-trust.js \
		--banner:js="// Generated from infra/clients/typescript by make vendor. Do not edit."
	@cp $(MODULES)/@noble/hashes/LICENSE $(VENDOR)/noble-hashes.LICENSE

pictures: $(VENV)/.tests ## Save console pictures in .build/console, and the README's in docs/console.png.
	@RESCIND_PICTURES=.build/console $(PYTEST) -m slow tests/functions/console -k "journeys"
	@$(BIN)/python -m tests.functions.console.picture docs/console.png

# Lock files pin dependencies by hash. Infra and Lambda use the versions in tests/requirements.lock.
# Tool lock files are separate, and do not affect other versions.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --no-annotate
LOCKED := $(COMPILE) --constraint tests/requirements.lock

lock: $(VENV)/.tests ## Renew the lock files (UPGRADE=--upgrade for newer versions).
	$(COMPILE) $(UPGRADE) pyproject.toml --extra postgresql --extra azure --extra pkcs11 --group infra --group tests --output-file tests/requirements.lock
	$(LOCKED) pyproject.toml --extra postgresql --extra azure --extra pkcs11 --group infra --output-file infra/requirements.lock
	$(LOCKED) --group functions --output-file requirements.lock
	$(COMPILE) $(UPGRADE) --group awslambdaric --output-file tests/tools/awslambdaric.lock
	for tool in $(TOOLS); do \
		$(COMPILE) $(UPGRADE) --group tests/tools/pyproject.toml:$$tool --output-file tests/tools/$$tool.lock || exit; \
	done

# Runs on any Python, and rejects outdated versions.
MADE := $(wildcard $(BIN)/python)
supported:
	@$(or $(MADE),$(PYTHON)) -c 'import sys; found = sys.version_info[:3]; \
		sys.exit(found < (3, 11) and "Rescind needs Python 3.11 or later; this is %d.%d.%d" % found \
		+ " ($(or $(MADE),$(PYTHON))). $(if $(MADE),Remove $(VENV) and set,Set) PYTHON," \
		+ " as in: make run PYTHON=python3.13")'

INSTALL = @$(PYTHON) infra/environment.py
COMMAND = @$(BIN)/python -m infra.cli.operator.install

$(VENV)/.infra: infra/requirements.lock | supported
	$(INSTALL) $(VENV) $<
	$(COMMAND) $(VENV)
	@touch $@

$(VENV)/.tests: tests/requirements.lock | supported
	$(INSTALL) $(VENV) $<
	$(COMMAND) $(VENV)
	@touch $@ $(VENV)/.infra

$(TOOLS:%=.tools/%/.installed): .tools/%/.installed: tests/tools/%.lock | $(VENV)/.tests
	@rm -rf $(@D)
	@$(BIN)/python infra/environment.py $(@D) $<
	@touch $@

$(NODE_TOOLS:%=.tools/%/.installed): .tools/%/.installed: tests/tools/%/package.json tests/tools/%/package-lock.json
	@echo "Installing $* in .tools/$* (once)"
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	@touch $@

clean: ## Remove environments, builds and caches, but no data.
	rm -rf .venv .venv-* .tools .build dist .aws-sam .bench .mypy_cache .pytest_cache .ruff_cache .coverage .hypothesis
