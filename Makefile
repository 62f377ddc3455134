# Every target sets up what it needs by itself, from any folder and for any user: make -C /path/to/clone test
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
TOOLS := .cache/tools
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo test test-all vmtest raytest check bench fuzz lock clean

## .venv with what requirements/dev.txt locks, and the sandbox's WebAssembly component.
setup: .venv/.installed
	@$(BIN)/python -m codemode_server.sandbox.backends.wasm.build --if-stale

## One program against three real MCP servers, from the host's request to the answer; in an environment of its own.
demo:
	@PYTHON="$(PYTHON)" sh scripts/setup_demo.sh
	@.cache/demo/venv/bin/python -m scripts.demo

## The tests that need no registry and take no more than seconds each: four minutes on two cores.
test: setup
	@$(PYTEST) -m "not slow and not network and not ray"

## All others that need no microVM: attacks, kills, browsers, real hosts and published servers (PyPI and npm, once).
test-all: setup
	@$(PYTEST) -m "slow or network"

## The tests in real microVMs, emulated where this machine has no virtualization; gets pandas from PyPI, once.
VMTESTS ?= tests/sandbox tests/microvm
vmtest: setup
	@$(BIN)/python -m scripts.native_packages 3.11
	@CODEMODE_VM_MACHINES=2 CODEMODE_VM_TRIES=6 CODEMODE_VM_SILENCE_S=500 scripts/vm/run -- $(BIN)/python -m pytest -v \
		-p scripts.vm.no_skips -p scripts.vm.resuming -p no:cacheprovider -p no:xdist --timeout 400 \
		-m "microvm and not portable" $(VMTESTS)

## Sandbox nodes in a Ray cluster; installs Ray (490 MB from PyPI) into .cache, and needs root on Linux.
raytest: setup
	@$(BIN)/python -m pytest -m ray tests/hosts/test_ray.py

## ruff, and mypy --strict, also with the types of Windows.
check: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 --exclude sandbox/guest codemode_server

## Budgets and attacks, as ratios in one run. `make bench-NAME` runs another: attacks, tasks, search, packages, peers, scale, privacy, soak.
bench: setup
	@$(BIN)/python -m benchmarks $(ARGS)
bench-%: setup
	@$(BIN)/python -m benchmarks.$* $(ARGS)

## Every parser of untrusted bytes with other examples each time; ARGS="-k NAME --hypothesis-seed N".
FUZZ_EXAMPLES ?= 100
fuzz: setup
	@FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/pytest tests/fuzz --timeout 3600 $(ARGS)

## The locks in requirements/; ARGS=--upgrade takes newer versions.
lock: $(TOOLS)/.installed
	@sh scripts/lock.sh $(ARGS)

clean:
	rm -rf .venv .cache codemode_server/sandbox/backends/wasm/guest.wasm codemode_server/sandbox/backends/wasm/guest.wasm.json

.venv/.installed: pyproject.toml requirements/dev.txt scripts/setup.sh scripts/venv.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh
	@touch "$@"

$(TOOLS)/.installed: requirements/tools.txt
	@$(PYTHON) -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --require-hashes --requirement requirements/tools.txt
	@touch "$@"
