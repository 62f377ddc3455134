# Every target sets up what it needs by itself, from any folder and for any user: make -C /path/to/clone test
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .cache/tools
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-slow test-network kills image vmtest vmtest-all lint types check bench soak bench-types bench-direct bench-search bench-peers bench-privacy bench-vm component setup clean lock audit sbom fuzz

## The main job on real input: three real MCP servers, four tools, one program.
demo: setup
	@$(BIN)/python -m scripts.demo

## The tests that take no more than seconds each and need no registry, on all processors: five minutes on two.
test: setup
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not network"

## The others that need no registry: whole suites of attacks, kills, privacy and browsers. Ten minutes on two processors.
test-slow: setup
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not network"

## The tests with real hosts and published servers, which are installed from PyPI and npm once.
test-network: setup
	@$(BIN)/python -m pytest -n auto --dist worksteal -m network

## 200 kills of the product in the middle of programs that are then resumed.
kills: setup
	@KILLS=200 $(BIN)/python -m pytest -s tests/storage/test_resumed_kills.py

## The tests that need microVMs, real ones: in a machine that is emulated where this one has no virtualization. Tests of
## guest code that is the same on every backend (marked `portable`) run on wasm in `make test`, here with `vmtest-all`.
VMTESTS ?= tests/sandbox tests/microvm
VMTEST = CODEMODE_VM_TRIES=6 CODEMODE_VM_SILENCE_S=500 scripts/vm/run -- $(BIN)/python -m pytest -v \
	-p scripts.vm.no_skips -p scripts.vm.resuming -p no:cacheprovider -p no:xdist --timeout 400
vmtest: setup
	@$(VMTEST) -m "microvm and not portable" $(VMTESTS)

vmtest-all: setup
	@$(VMTEST) -m microvm $(VMTESTS)

## Every parser of untrusted bytes, each for a share of the time, with seeds 0, 1, 2 …; ARGS="--only NAME --seed N".
FUZZ_SECONDS ?= 60
fuzz: setup
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 --exclude sandbox/guest codemode_server

check: lint types test test-slow test-network

## Every budget in one run, as ratios: writes benchmarks/RESULTS.md. Needs no network once set up.
## `make bench ARGS=--attacks` runs the attacks alone, ARGS="--attacks query" those with that word in their names.
bench: setup
	@$(BIN)/python -m benchmarks $(ARGS)

## 20,000 calls and 2,000 programs on one product, and then what it still uses; SOAK_HOURS=1 goes on for an hour.
SOAK_HOURS ?= 0
soak: setup
	@$(BIN)/python -m benchmarks.soak --hours $(SOAK_HOURS)

## What stubs tell of results, on twenty tasks for real servers: writes benchmarks/TYPES.md. Installs them once.
bench-types: setup
	@$(BIN)/python -m benchmarks.proof

## What a task costs by direct tools and by a program, in tokens and turns: writes benchmarks/DIRECT.md.
bench-direct: setup
	@$(BIN)/python -m benchmarks.direct

## How well and how fast `search_tools` finds the tool, beside others: writes benchmarks/SEARCH.md. Installs them once.
## `make bench-search ARGS=--quality-only` keeps the times of the SEARCH.md that is there: for a machine with other work.
bench-search: setup
	@$(BIN)/python -m benchmarks.search $(ARGS)

## The time of small programs beside FastMCP's CodeMode and toolplane: writes benchmarks/PEERS.md. Installs them once.
bench-peers: setup
	@$(BIN)/python -m benchmarks.peers

## How well and how fast personal data is found, beside a baseline and Presidio: writes benchmarks/PRIVACY.md.
bench-privacy: setup
	@$(BIN)/python -m benchmarks.privacy $(ARGS)

## The microVM's figures, where one boots: writes benchmarks/MICROVM.md.
bench-vm: setup
	@mkdir -p .cache/bench-vm
	@CODEMODE_VM_OUT="$(CURDIR)/.cache/bench-vm" scripts/vm/run -- $(BIN)/python -m benchmarks.microvm
	@cp .cache/bench-vm/MICROVM.md benchmarks/MICROVM.md

## The locks in requirements/, from pyproject.toml and the files beside them; `make lock ARGS=--upgrade` takes new versions.
lock: $(TOOLS)/.installed
	@$(TOOLS)/bin/python -m scripts.lock $(ARGS)

## Known vulnerabilities of what is locked; fails as well where the databases can't be asked.
audit: $(TOOLS)/.installed
	@$(TOOLS)/bin/python -m scripts.audit

## What a release is made of, as CycloneDX in dist/.
sbom: setup $(TOOLS)/.installed
	@$(TOOLS)/bin/python -m scripts.sbom

## The image of the Dockerfile, built without a registry, and a client of it: as root on Debian, with buildah.
image: setup
	@sh scripts/image.sh

$(TOOLS)/.installed: requirements/tools.txt
	@$(PYTHON) -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --require-hashes --requirement requirements/tools.txt
	@touch "$@"

## The sandbox's WebAssembly component, from codemode_server/sandbox/guest; done by itself where it is missing or stale.
component: setup

setup: $(VENV)/.installed
	@$(BIN)/python -m codemode_server.sandbox.backends.wasm.build --if-stale

$(VENV)/.installed: pyproject.toml requirements/dev.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh
	@touch "$@"

clean:
	rm -rf $(VENV) .cache codemode_server/sandbox/backends/wasm/guest.wasm codemode_server/sandbox/backends/wasm/guest.wasm.json
