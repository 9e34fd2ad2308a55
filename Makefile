# `make` lists the targets. Everything is set up in .venv, from the lock files; nothing else is touched,
# except that root installs what is missing from Debian (python3-venv, and the packages of tests/tools.txt).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --no-input
DEMO ?=
FUZZ_ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
LAB_ARGS ?=
FAULTS_ARGS ?= --write
MUTANTS_ARGS ?=
CODE := src tests docs bench

.DEFAULT_GOAL := help
.PHONY: help demo test lab faults fuzz fuzz-coverage mutants check format picture docs bench lock venv clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Replay the incident on an embedded SSH server (DEMO=DIR keeps it in DIR)
	@.ci/tools openssh-client
	@$(BIN)/knob demo $(DEMO)

test: $(VENV)/.dev ## Run all tests; installs what they need (PYTEST_ARGS="-k undo")
	@.ci/tools
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lab: $(VENV)/.dev ## A shell with two real hosts in namespaces and a workspace (root; docs/lab.md)
	@.ci/tools
	@PYTHONPATH=tests $(BIN)/python -m lab.shell $(LAB_ARGS)

faults: $(VENV)/.dev ## Every fault at every step of a change, and 200 kills; writes docs/reliability.md (root)
	@.ci/tools
	@PYTHONPATH=tests $(BIN)/python -m faults.run --write $(FAULTS_ARGS)

fuzz: $(VENV)/.dev ## Many generated edits (FUZZ_ARGS="--seed 1 --count 1000000"), then all properties at length
	@PYTHONPATH=tests/knobs $(BIN)/python tests/knobs/fuzz.py $(FUZZ_ARGS)
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -m hypothesis --timeout 0 $(PYTEST_ARGS)

fuzz-coverage: $(VENV)/.dev ## Readers and edits under atheris (FUZZ_ARGS=-max_total_time=600); needs CPython with a wheel of it
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) install --no-build-isolation --editable '.[fuzz]'
	@mkdir -p $(VENV)/fuzz && cd $(VENV)/fuzz && PYTHONPATH=$(CURDIR)/tests/knobs ../bin/python \
	$(CURDIR)/tests/knobs/coverage_guided.py corpus -max_len=600 -timeout=60 -print_final_stats=1 $(FUZZ_ARGS)

mutants: $(VENV)/.dev ## Small changes of the code that no test notices (MUTANTS_ARGS="apply ledger.store")
	@$(BIN)/python -c 'import mutmut' 2>/dev/null || $(PIP) install --no-build-isolation --editable '.[mutation]'
	@PYTHONPATH=tests $(BIN)/python -m mutation.run $(MUTANTS_ARGS)

check: $(VENV)/.dev ## Lint, format, types, layers, generated docs
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

picture: $(VENV)/.dev ## Draw docs/demo.svg from a run of the demo in /srv/ops, which must not exist
	@KNOBLEDGER_ACTOR=anna@example.org $(BIN)/knob demo /srv/ops --svg docs/demo.svg && rm -rf /srv/ops

docs: $(VENV)/.dev ## Write the generated pages anew (docs/cli.md)
	$(BIN)/python docs/generate.py

bench: $(VENV)/.dev ## Measure reading, then one change against raw ssh, Ansible and pyinfra (BENCH_ARGS="--runs 15 --write")
	@.ci/tools
	$(BIN)/python bench/reading.py
	$(BIN)/python bench/run.py $(BENCH_ARGS)
	$(BIN)/python bench/restarts.py

COMPILE := $(BIN)/pip-compile --quiet --no-config --generate-hashes --strip-extras --allow-unsafe \
	--no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	--newline lf --build-deps-for editable $(LOCK_ARGS)

lock: $(VENV)/.dev ## Write the lock files anew (LOCK_ARGS=--upgrade takes the newest versions)
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	@! grep -n '://' requirements.lock requirements-dev.lock

venv: $(VENV)/.dev ## Only set up .venv, with the tools of development

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests docs bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian's python3 comes without ensurepip; python3-venv brings it.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "needs Python 3.11 or later: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	if [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then \
	echo "installing python3-venv" >&2; export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq </dev/null >&2 && apt-get install -y -qq --no-install-recommends python3-venv </dev/null >&2; \
	else echo "needs python3-venv: sudo apt-get install python3-venv" >&2; exit 1; fi; }
	@echo "setting up $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)

# An editable install: --no-build-isolation takes the build backend from the lock as well.
$(VENV)/.demo: requirements.lock pyproject.toml | $(BIN)/pip
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(BIN)/pip
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.demo
