# Needs Python 3.11 or newer with venv, pip and make; everything else is put into .venv.
#   make rank                      the example, end to end
#   make test PYTHON=python3.12    another interpreter (remove .venv first if there is one)

PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint pins.txt
SPEC    ?= examples/qwen3-32b-128k-hgx-h100.yaml
OUT     ?= out/qwen3-32b-128k

export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help rank test lint format types imports docs bench soak clean

help:  ## this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

rank: $(VENV)/.ready-run  ## rank plans for the example spec, report in out/ (SPEC=… OUT=… to choose)
	@$(BIN)/planner rank $(SPEC) --out $(OUT)

# Tests run one process a core, so threads of linear algebra would only wait for each other: two of
# them on busy cores are ten times slower than one.
test soak: export OPENBLAS_NUM_THREADS := 1

test: $(VENV)/.ready-dev  ## all tests but the soak tests
	@$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

lint: $(VENV)/.ready-dev  ## style: ruff check, ruff format --check
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(VENV)/.ready-dev  ## mend what lint can mend
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/.ready-dev  ## types: mypy, strict
	@$(BIN)/mypy

imports: $(VENV)/.ready-dev  ## floors: no import turns back
	@$(BIN)/lint-imports --no-logo

docs: $(VENV)/.ready-docs  ## manual in docs/_build/index.html, warnings are errors
	@$(BIN)/python -m docs.pages --check
	@$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs docs/_build
	@echo "docs/_build/index.html"

bench: $(VENV)/.ready-run  ## speed, measured
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(VENV)/.ready-dev  ## the tests that run for minutes
	@$(BIN)/python -m pytest -n auto --dist loadgroup -m soak $(ARGS)

clean:  ## remove caches and built pages (keeps .venv and out/)
	@rm -rf docs/_build build dist .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -not -path '*/.venv/*' -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# One environment, three degrees of it. Each stamp is renewed when pyproject.toml or pins.txt changes.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is %d.%d: make PYTHON=…" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready-run: pyproject.toml pins.txt | $(BIN)/pip
	@echo "Installing into $(VENV) (a minute or two the first time) …" >&2
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready-dev: pyproject.toml pins.txt | $(BIN)/pip
	@echo "Installing into $(VENV), with the development tools (a minute or two the first time) …" >&2
	@$(PIP) --editable '.[dev]'
	@touch $(VENV)/.ready-run $@

$(VENV)/.ready-docs: pyproject.toml pins.txt $(VENV)/.ready-dev
	@echo "Installing Sphinx into $(VENV) …" >&2
	@$(PIP) --editable '.[dev,docs]'
	@touch $@
