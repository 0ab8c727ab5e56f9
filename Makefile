# Every verb works from a clean clone: the virtual environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin
# One at a time, as they share an environment.
ALONE := $(and $(shell command -v flock),flock .venv/lock)
UV := $(ALONE) $(BIN)/uv pip install --quiet --python $(BIN)/python \
	--constraint constraints.txt
# Bytecode is kept, whatever this machine's default is: tests start hundreds of processes that import the same.
unexport PYTHONDONTWRITEBYTECODE
TRACE ?=
# Every Python has asyncio, and the embedded model has not seen it.
DATA ?= $$($(BIN)/python -c 'import asyncio; print(asyncio.__path__[0])')
MODEL ?=
HUMANEVAL ?=
BASE ?=
SECONDS ?= 120
GPU_PYTHON ?= .venv-gpu/bin/python
VSCODE := editor_clients/vscode
TABBY := tests/http/tabby
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SDIST := dist/efim_ls-$(VERSION).tar.gz
# Wheels of models that are installed separately.
SEPARATE := $(patsubst %,dist/efim_ls_%-$(VERSION)-py3-none-any.whl,go more)
NPM = $(BIN)/python -m tests.editors.fetching.node --prefix $(VSCODE)

.PHONY: demo test test-editors test-lab check explore coverage lint types fix docs vsix release wheels single editors extension released programs pictures fuzz bench gpu-check gpu-run team-check eval clean

demo: .venv/runs
	$(BIN)/efim-ls demo

# Side by side, a file's tests in one process, in the order in which they are found: small files come last, so that no
# process waits long for another. There are two processes more than cores, since tests of servers often wait.
CORES := $(shell getconf _NPROCESSORS_ONLN)
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest
SIDE_BY_SIDE = --dist loadfile --no-loadscope-reorder --numprocesses $(shell expr $(CORES) + 2) --maxprocesses 4

# Tests with windows come last, one at a time, while nothing else runs.
test: editors released .venv/kernels .venv/rewritten
	$(PYTEST) $(SIDE_BY_SIDE) --ignore=tests/lab -m "not window" --durations 20
	$(PYTEST) tests/editors -m window --durations 10

test-editors: editors
	$(PYTEST) tests/editors --durations 10

# Workshop and studies; recorded, so that .ci/run need not run them again until these change. The gate's are in `test`.
test-lab: .venv/workshop
	$(PYTEST) $(SIDE_BY_SIDE) tests/lab --durations 10
	$(BIN)/python -m tests.lab.passed record

# What a change is likely to break, within three minutes: BASE is the commit to compare with. Where the client of an editor
# has changed, the editors are fetched and the client is built first.
check: lint types
	mkdir -p build && $(BIN)/python -m tests.affected $(BASE) > build/affected
	! grep -qs tests/editors/ build/affected || $(MAKE) --no-print-directory editors
	$(PYTEST) $(SIDE_BY_SIDE) $$(cat build/affected)

# The tests of the rooms that pyproject.toml names for coverage.py, and which of the rooms' branches they do not take.
# Only these, because coverage.py slows down the code that it measures.
MEASURED := $(addprefix tests/unit/,kv_store kv_disk shared kv engine) tests/shared \
	$(addprefix tests/engine/,decoding excerpts compose kinds/test_sliding.py kinds/test_states.py kinds/test_arena.py \
	gpu/test_gpu_top_tokens.py languages/test_phrases.py \
	$(addprefix completion/,test_kv_persistence.py test_complete_ahead.py))

coverage: programs
	rm -rf build/coverage && mkdir -p build/coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest $(SIDE_BY_SIDE) $(MEASURED)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

lint: .venv/lints
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/types $(VSCODE)/node_modules/.package-lock.json
	NODE_OPTIONS=--max-semi-space-size=128 $(BIN)/pyright  # collects garbage less often, and is done sooner
	$(NPM) run check

fix: .venv/lints
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Files written from code: docs/commands.md, docs/laboratory.md, docs/settings.md, the settings of the VS Code extension.
docs: .venv/runs
	$(BIN)/python -m efim_lab docs

vsix: $(VSCODE)/dist/efim-ls.vsix

# What users without a clone install from, in dist/: the server as source and as wheels, the models for further languages,
# the VS Code extension with the server in it (the wheels without models, and these once), the Neovim plugin, statements of
# the packages that are needed and of the build, and the hashes of all that. From a clean clone of a commit they are the same bytes.
release: $(VSCODE)/dist/efim-ls.vsix $(SEPARATE)
	rm -rf build/release && mkdir -p build/release
	tar -xzf $(SDIST) -C build/release
	cd build/release && $(TAR) $(notdir $(SDIST:.tar.gz=)) | gzip -9n > ../../$(SDIST)
	cp -r editor_clients/neovim build/release/efim-ls && cp LICENSE build/release/efim-ls
	cd build/release && $(TAR) efim-ls | gzip -9n > ../../dist/efim-ls-$(VERSION)-neovim.tar.gz
	cp $(VSCODE)/dist/efim-ls.vsix dist/efim-ls-$(VERSION).vsix
	$(BIN)/python -m tests.release.statements dist $(VERSION)
	cd dist && sha256sum *-$(VERSION)[.-]* > SHA256SUMS && cat SHA256SUMS

# What tests drive: real editors, kept in the user's cache, the extension and Tabby's agent. Tests of what cannot be had
# say so, and fail where CI is set.
editors: programs extension $(TABBY)/node_modules/.package-lock.json

extension: .venv/releases $(VSCODE)/node_modules/.package-lock.json
	-$(MAKE) --no-print-directory vsix && $(NPM) run build-test

released: extension
	-$(MAKE) --no-print-directory release

# The editors, and the servers that other tests ask.
programs: .venv/editors
	$(BIN)/python -m tests.editors.fetching

pictures: editors
	$(BIN)/python -m tests.editors.pictures

# The property tests with random seeds, for as many seconds; `make test` draws the same examples each time.
explore: SECONDS = 600
explore: .venv/develops
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.explore $(SECONDS)

# Random models through the compiled decoder, under gcc's sanitizers: half of the time for faults of memory, half for races.
fuzz: .venv/runs
	$(BIN)/python -m tests.engine.decoder.native_fuzz $(SECONDS)

bench: .venv/benches
	$(BIN)/python -m benchmarks $(TRACE)

# Ends with status 2 where there is no GPU; its figures go to benchmarks/results/. PYTHON is used as it is if it has the
# packages needed, in the versions of constraints-gpu.txt or in other versions that have run on a GPU.
gpu-check:
	@nvidia-smi >/dev/null 2>&1 || { echo "no GPU to check: nvidia-smi finds none" >&2; exit 2; }
	@if $(PYTHON) -c 'import pytest, torch, transformers, triton, xformers; assert torch.version.cuda; \
		assert (torch.__version__[:4], triton.__version__[:3]) in (("2.11", "3.6"), ("2.13", "3.7"))' 2>/dev/null; \
	then $(MAKE) gpu-run GPU_PYTHON=$(PYTHON); else $(MAKE) .venv-gpu/develops gpu-run; fi

gpu-run:
	$(GPU_PYTHON) -m pytest -m gpu -rs tests/gpu tests/lab/training_run/test_training_gpu.py
	$(GPU_PYTHON) -m benchmarks.gpu

# Servers that are running, with the embedded model: VLLM_URL=http://host:8000, LLAMA_CPP_URL=http://host:8080, or both.
team-check: .venv/tests
	@test -n "$(VLLM_URL)$(LLAMA_CPP_URL)" || { echo "no server to check: name VLLM_URL or LLAMA_CPP_URL" >&2; exit 2; }
	EFIM_LS_VLLM_URL="$(VLLM_URL)" EFIM_LS_LLAMA_CPP_URL="$(LLAMA_CPP_URL)" $(BIN)/python -m pytest -m team tests/team

eval: .venv/tests
	$(BIN)/python -m efim_lab eval --data "$(DATA)" $(MODEL:%=--model %) $(HUMANEVAL:%=--humaneval %)

clean:
	rm -rf .venv .venv-gpu build dist *.egg-info $(VSCODE)/node_modules $(VSCODE)/dist $(TABBY)/node_modules

$(BIN)/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv

# What running needs: about 1 GB, most of it torch. torch comes first, alone, so that nothing else may choose its build,
# and by pip, which knows where this machine has it.
.venv/torch: constraints.txt | $(BIN)/python
	@echo "installing into .venv: a minute or so"
	$(ALONE) $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch
	touch $@

INSTALLED := pyproject.toml setup.py constraints.txt $(wildcard model_runtime/decoder/native/*.[ch] \
	model_runtime/counts/native/*.c model_runtime/engine/native/*.c)
KERNELS := $(wildcard efim_lab/workshop/training/native/*.[ch])

.venv/runs: .venv/torch $(INSTALLED)
	$(UV) --editable .
	touch $@

# Each stage's additional needs: EXTRAS, of pyproject.toml's optional dependencies. Nothing is compiled again.
REQUIREMENTS = $(BIN)/python -c 'import sys, tomllib; \
	extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*(each for name in sys.argv[1:] for each in extras[name]), sep="\n")'
STAGES := $(addprefix .venv/,lints tests kernels nodes editors labs types releases crosses singles)

.venv/lints: EXTRAS = lint
.venv/tests: EXTRAS = foreign http shared gpu test
.venv/kernels: EXTRAS = kernels
.venv/nodes: EXTRAS = node
.venv/editors: EXTRAS = editors
.venv/labs: EXTRAS = train
.venv/types: EXTRAS = types
.venv/releases: EXTRAS = release
.venv/crosses: EXTRAS = wheels
.venv/singles: EXTRAS = single

.venv/lints .venv/nodes .venv/releases: | $(BIN)/python
.venv/tests: .venv/runs
.venv/kernels .venv/labs: .venv/tests
.venv/workshop: .venv/labs
.venv/editors: .venv/tests .venv/nodes
.venv/types: .venv/editors .venv/labs
.venv/crosses .venv/singles: .venv/releases

# The workshop's own kernels, which nothing else needs.
.venv/workshop: setup.py $(KERNELS)
	$(BIN)/python -W ignore setup.py --quiet kernels
	touch $@

# Compiles the tests once: otherwise each of the processes that run them would compile them all.
.venv/rewritten: .venv/editors
	-$(PYTEST) --collect-only --quiet --ignore=tests/lab tests > /dev/null
	touch $@

$(STAGES): pyproject.toml constraints.txt
	@echo "installing for $(@F): $(EXTRAS)"
	$(REQUIREMENTS) $(EXTRAS) | $(UV) --requirement /dev/stdin
	touch $@

$(VSCODE)/node_modules/.package-lock.json: $(VSCODE)/package-lock.json | .venv/nodes
	@echo "installing what the VS Code extension is built with"
	$(NPM) ci --ignore-scripts --no-audit --no-fund
	touch $@

$(TABBY)/node_modules/.package-lock.json: $(TABBY)/package-lock.json | .venv/nodes
	@echo "installing Tabby's agent, which tests of serving HTTP drive"
	$(BIN)/python -m tests.editors.fetching.node --prefix $(TABBY) ci --ignore-scripts --no-audit --no-fund
	touch $@

export SOURCE_DATE_EPOCH := $(or $(shell git log -1 --format=%ct 2>/dev/null),1767225600)
TAR = tar --create --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX
# No cache: pip would take a wheel that it has once made of a file with this name. The linker leaves out what debuggers
# need, and with it the paths of this machine.
MAKE_WHEEL = $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --no-cache-dir
WHEEL = LDSHARED='$(CC) -shared -s' $(MAKE_WHEEL)
SERVER := $(shell git ls-files efim_ls model_runtime kv_store editor_clients/headless) \
	pyproject.toml setup.py MANIFEST.in constraints.txt requirements-embedded.txt README.md

# Two wheels: one with the compiled parts, for Linux on x86-64 with the glibc that torch's own wheels need, and one
# without them for all else. Where they cannot be compiled there is only the latter.
dist/wheels: $(SERVER) | .venv/releases
	rm -rf dist/efim_ls-* dist/wheels build/wheels
	$(BIN)/python -m build --sdist --no-isolation --outdir dist . > /dev/null
	CC=false $(WHEEL) --wheel-dir dist $(SDIST)
	$(WHEEL) --wheel-dir build/wheels $(SDIST)
	! ls build/wheels/*-linux_x86_64.whl > /dev/null 2>&1 || PATH="$(BIN):$$PATH" $(BIN)/python -m auditwheel repair \
		--plat manylinux_2_28_x86_64 --only-plat --wheel-dir dist build/wheels/*-linux_x86_64.whl
	touch $@

$(SEPARATE): dist/efim_ls_%-$(VERSION)-py3-none-any.whl: $(shell git ls-files model_runtime/embedded) \
		efim_lab/workshop/publishing/wheel.py pyproject.toml | .venv/runs
	$(BIN)/python -m efim_lab.workshop.publishing.wheel model_runtime/embedded/$* efim-ls-$* $(VERSION) dist

# As wheels name machines, and as zig does, a compiler for all of them.
ELSEWHERE = manylinux_2_28_aarch64=aarch64-linux-gnu.2.28 macosx-11.0-arm64=aarch64-macos.11.0 \
	macosx-11.0-x86_64=x86_64-macos.11.0 win-amd64=x86_64-windows-gnu win-arm64=aarch64-windows-gnu

# Wheels with the compiled parts for other machines, in dist/elsewhere; docs/install.md says which of them were tried.
wheels: dist/wheels .venv/crosses
	rm -rf dist/elsewhere
	for each in $(ELSEWHERE); do \
		compiler="$(CURDIR)/$(BIN)/python -m ziglang cc -target $${each#*=}"; \
		_PYTHON_HOST_PLATFORM=$${each%=*} CC="$$compiler" LDSHARED="$$compiler -shared -s" \
			$(MAKE_WHEEL) --wheel-dir dist/elsewhere $(SDIST) || exit; \
	done

# The light server as one file, for Linux and the version of this Python; docs/install.md says what else it takes.
single: dist/wheels .venv/singles
	mkdir -p dist/single
	$(BIN)/python -m pex --venv --intransitive --requirement requirements-embedded.txt \
		--constraints constraints.txt dist/efim_ls-*-manylinux_2_28_x86_64.whl --script efim-ls \
		--output-file dist/single/efim-ls-$(VERSION).pex

EXTENSION = $(addprefix $(VSCODE)/,package.json README.md build.mjs slim.py tsconfig.json .vscodeignore) \
	$(wildcard $(VSCODE)/src/* $(VSCODE)/test/* $(VSCODE)/images/* $(VSCODE)/media/*)

$(VSCODE)/dist/efim-ls.vsix: $(VSCODE)/node_modules/.package-lock.json $(EXTENSION) dist/wheels constraints.txt \
		requirements-embedded.txt efim_lab/workshop/publishing/models_apart.py | .venv/runs
	rm -rf $(VSCODE)/dist/server && mkdir -p $(VSCODE)/dist/server
	$(BIN)/python -m efim_lab.workshop.publishing.models_apart $(VSCODE)/dist/server dist/efim_ls-*.whl
	cd $(VSCODE)/dist/server && sha256sum *.whl > SHA256SUMS
	cp constraints.txt requirements-embedded.txt $(VSCODE)/dist/server
	$(NPM) run package

.venv-gpu/develops: pyproject.toml constraints-gpu.txt
	@echo "installing torch for CUDA into .venv-gpu: several GB"
	test -x .venv-gpu/bin/python || $(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --constraint constraints-gpu.txt --editable '.[foreign,gpu,http,shared,test]'
	touch $@

# Without these flags gcc 12 leaves out what llama.cpp writes before it sets AMX up, and it dies of that.
GCC_FLAGS = $(if $(findstring Free Software,$(shell c++ --version 2>/dev/null)),-fno-tree-dse -fno-dse)

# Only `make bench` needs this. Without it llama.cpp's figures are missing, and it says so. SOURCE_DATE_EPOCH, which is
# exported above, would turn off the instructions of this CPU, and pip would keep that build.
.venv/benches: .venv/workshop
	@echo "building llama.cpp, to compare with: about five minutes"
	CMAKE_ARGS=-DGGML_NATIVE=ON CXXFLAGS="$(GCC_FLAGS)" $(UV) --no-cache-dir --editable '.[bench]' && touch $@ || echo "llama.cpp was not built" >&2
