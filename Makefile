# Every verb works from a clean clone: the virtual environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
TRACE ?=
# Every Python has asyncio, and the embedded model has not seen it.
DATA ?= $$($(BIN)/python -c 'import asyncio; print(asyncio.__path__[0])')
MODEL ?=
HUMANEVAL ?=
GPU_PYTHON ?= .venv-gpu/bin/python

.PHONY: demo test lint types fix bench gpu-check gpu-run eval clean

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

bench: .venv/benches
	$(BIN)/python -m benchmarks $(TRACE)

# Ends with status 2 where there is no GPU; what it measures goes to benchmarks/results/. PYTHON is used as it is where
# it has what that takes.
gpu-check:
	@nvidia-smi >/dev/null 2>&1 || { echo "no GPU to check: nvidia-smi finds none" >&2; exit 2; }
	@if $(PYTHON) -c 'import pytest, torch, transformers, xformers; assert torch.version.cuda' 2>/dev/null; \
	then $(MAKE) gpu-run GPU_PYTHON=$(PYTHON); else $(MAKE) .venv-gpu/develops gpu-run; fi

gpu-run:
	$(GPU_PYTHON) -m pytest -m gpu -rs tests/gpu
	$(GPU_PYTHON) -m benchmarks.gpu

eval: .venv/develops
	$(BIN)/efim-ls eval --data "$(DATA)" $(MODEL:%=--model %) $(HUMANEVAL:%=--humaneval %)

clean:
	rm -rf .venv .venv-gpu build dist *.egg-info

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

# No constraints: torch for CUDA is another build than the one that tests run on everywhere.
.venv-gpu/develops: pyproject.toml
	@echo "installing torch for CUDA into .venv-gpu: several GB"
	test -x .venv-gpu/bin/python || $(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --editable '.[dev]'
	touch $@

# Without these flags gcc 12 leaves out what llama.cpp writes before it sets AMX up, and it dies of that.
GCC_FLAGS = $(if $(findstring Free Software,$(shell c++ --version 2>/dev/null)),-fno-tree-dse -fno-dse)

# What only `make bench` needs. Without it llama.cpp's figures are missing, and it says so.
.venv/benches: .venv/develops
	@echo "building llama.cpp, to compare with: about five minutes"
	CXXFLAGS="$(GCC_FLAGS)" $(PIP) --editable '.[bench]' && touch $@ || echo "llama.cpp was not built" >&2
