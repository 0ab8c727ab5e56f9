# Every verb works from a clean clone: the virtual environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
TRACE ?=

.PHONY: demo test lint types fix bench clean

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

clean:
	rm -rf .venv build dist *.egg-info

# What running needs: about 1 GB, most of it torch. torch comes first, alone, so that nothing else may choose its build.
.venv/runs: pyproject.toml constraints.txt
	@echo "installing into .venv: a minute or so"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	touch $@

.venv/develops: .venv/runs
	@echo "installing what tests, lint and training need"
	$(PIP) --editable '.[dev]'
	touch $@
