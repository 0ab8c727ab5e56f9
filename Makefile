# Every verb works from a clean clone: the virtual environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
TRACE ?=
# Every Python has asyncio, and the embedded model has not seen it.
DATA ?= $$($(BIN)/python -c 'import asyncio; print(asyncio.__path__[0])')
MODEL ?=
HUMANEVAL ?=

.PHONY: demo test lint types fix bench eval clean

demo: .venv/runs
	$(BIN)/efim-ls demo

test: .venv/develops
	$(BIN)/python -m pytest

lint: .venv/develops
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/develops
	$(BIN)/pyright

fix: .venv/develops
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/develops
	$(BIN)/python -m benchmarks $(TRACE)

eval: .venv/develops
	$(BIN)/efim-ls eval --data "$(DATA)" $(MODEL:%=--model %) $(HUMANEVAL:%=--humaneval %)

clean:
	rm -rf .venv build dist *.egg-info

# What running needs: about 1 GB, most of it torch. torch comes first, alone, so that nothing else may choose its build.
.venv/runs: pyproject.toml constraints.txt $(wildcard model_runtime/native/*.[ch])
	@echo "installing into .venv: a minute or so"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	touch $@

.venv/develops: .venv/runs
	@echo "installing what tests, lint and training need"
	$(PIP) --editable '.[dev]'
	touch $@
