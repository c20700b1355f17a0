# Everything runs inside .venv. `make setup` creates it; every other target runs that first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One more process than cores, because many tests wait for a process, a browser or a database.
JOBS   ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Tests of a file stay in one process, so that its fixtures are created once. A process without work takes over tests.
SPREAD := -n $(JOBS) --dist worksteal
# In CI a failed test runs a second time and is listed as "rerun" with the reason. With thousands of tests on real
# processes, a single slow moment of the machine should not fail a change. Every listed test is a bug to fix.
AGAIN  := $(if $(filter true,$(CI)),--reruns 1 -rR --rerun-show-tracebacks)

.DEFAULT_GOAL := help
.PHONY: help setup web chromium test test-web test-kube frameworks lint format bench run postgresql kube clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv and install gpusquad with its development tools

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "gpusquad needs Python 3.11 or later. Choose one: make setup PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Could not create a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

# The dashboard. The wheel contains the built files; a checkout works without them, except for the dashboard itself.
WEB_PAGE := src/gpusquad/server/static/index.html
WEB_LIBS := web/node_modules/.package-lock.json
WEB_FILES := $(shell find web/src web/public -type f -not -name '*.test.ts') web/index.html web/tsconfig.json \
	web/vite.config.ts
NPM := cd web && npm --loglevel error

web: $(WEB_PAGE) ## Build the dashboard (needs Node.js 20 or later)

NODE_OK := command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null

$(WEB_LIBS): web/package.json web/package-lock.json
	@$(NODE_OK) || { echo "The dashboard needs Node.js 20 or later, which is not installed." >&2; exit 1; }
	$(NPM) ci --no-audit --no-fund
	@touch $@

$(WEB_PAGE): $(WEB_LIBS) $(WEB_FILES)
	$(NPM) run --silent build -- --logLevel warn
	@touch $@

test-web: setup web chromium ## Test the dashboard: unit tests, then Chromium with a real service
	$(NPM) run --silent test
	$(BIN)/pytest $(SPREAD) $(AGAIN) tests/web tests/server/test_web.py

# Kubernetes is built in the background during the tests. If that fails, test-kube builds it again and shows the error.
KUBE_AHEAD := setsid nice -n 19 make --no-print-directory kube
KUBE_LOG   := out/kube-build.log

test: setup web chromium frameworks ## Run all tests (JOBS=1 for one process)
	$(NPM) run --silent test
	@mkdir -p $(dir $(KUBE_LOG)); $(KUBE_AHEAD) >$(KUBE_LOG) 2>&1 & builder=$$!; \
	trap 'kill -- -$$builder 2>/dev/null' EXIT; \
	echo "Building Kubernetes in the background if it is missing; log: $(KUBE_LOG)"; \
	$(BIN)/pytest $(SPREAD) $(AGAIN) --ignore=tests/kube || exit 1; \
	wait $$builder; trap - EXIT
	@$(MAKE) --no-print-directory test-kube

# One process, because the tests share a control plane and a machine can be a node only once. Outside CI they are
# skipped with a message if Kubernetes cannot be built.
test-kube: setup ## Run the tests on a real Kubernetes, which is built the first time (minutes)
	@if $(MAKE) --no-print-directory kube; then GPUSQUAD_KUBE=1 $(BIN)/pytest -n 0 $(AGAIN) tests/kube; \
	elif [ "$$CI" = true ]; then exit 1; \
	else echo "Skipped: tests on a real Kubernetes, which could not be built here (see above)." >&2; fi

lint: setup ## Check style, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: setup ## Format the code and apply ruff's automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Print the scoreboard: each claim with its threshold and baseline
	$(BIN)/python -m bench run --all

# The dashboard comes first, so that the tour can end with a link to it. A tour without it is still worth having.
run: setup ## Start the service, run sample jobs, and end with the link to the dashboard
	@if test -f $(WEB_PAGE) || { $(NODE_OK); }; then \
		$(MAKE) --no-print-directory web || echo "The dashboard could not be built (see above)." >&2; \
	else \
		echo "Node.js 20 or later is not installed, so the dashboard is not built. The tour runs without it."; \
	fi
	@examples/tour.sh $(BIN)/gpusquad

postgresql: ## Install the PostgreSQL server, which the tests start themselves (Debian and Ubuntu, as root)
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; }

# With fonts: without a Korean font, screenshots show boxes.
chromium: ## Install Chromium for the dashboard tests (Debian and Ubuntu, as root)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium fonts-dejavu-core fonts-nanum >/dev/null; }

# Outside CI the tests that need them are skipped with a message if they cannot be installed.
frameworks: setup ## Install TensorFlow and JAX for tests/e2e/test_frameworks.py (0.4 GB of downloads, once)
	@$(BIN)/python tools/frameworks.py || test "$$CI" != true

KUBE_PACKAGES := containerd runc containernetworking-plugins busybox-static openssl

kube: ## Find or build a real Kubernetes, which tests/kube starts itself (Debian and Ubuntu, as root; needs Go)
	@dpkg -s $(KUBE_PACKAGES) >/dev/null 2>&1 || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			$(KUBE_PACKAGES) >/dev/null; }
	@$(PYTHON) tools/kube/build.py

clean: ## Remove .venv, caches and outputs
	rm -rf $(VENV) web/node_modules src/gpusquad/server/static out dist build
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
