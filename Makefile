# Every target makes .venv first when it is missing or older than the pins. `make PYTHON=...` names another interpreter.

PYTHON ?=
UV := $(shell command -v uv 2>/dev/null)
BIN := .venv/bin
CACHE := $(CURDIR)/.cache
JOBS ?= 2
FAULT_MINUTES ?= 30
FAULT_KILLS ?= 1000
FAULT_REQUESTS ?= 1000000
BENCH_ARGS ?= --subscriptions 100000 --messages 2000

# Images of containers often turn bytecode off; each of the hundreds of processes that tests start would then compile
# anew all that it imports, a third of what the tests take.
unexport PYTHONDONTWRITEBYTECODE

# Python >= 3.11 that can make environments; a version manager's shim may exist and still not run, so each is tried.
USABLE := import sys, venv; sys.exit(sys.version_info < (3, 11))
ifeq ($(UV),)
USABLE := import ensurepip; $(USABLE)
endif
CANDIDATES := $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)

# Tests that share the Spark session run on one worker: tests/support/work_units.py. There is one worker more than jobs:
# tests wait for sockets, Spark and other processes, and leave their core to whoever can use it.
PYTEST := $(BIN)/python -m pytest -n $(shell expr $(JOBS) + 1)

.DEFAULT_GOAL := help
.PHONY: help .venv demo picture frames test test-faults browser vendor check bench figures

help: ## show this list
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv: .venv/.ready ## make the environment with everything in it

# A stamp is removed first and written last: after a failed install the next make starts over instead of trusting the rest.
.venv/.made: requirements.lock pyproject.toml
	@rm -f .venv/.made .venv/.demo .venv/.ready
	@python=; for candidate in $(CANDIDATES); do \
		if "$$candidate" -c '$(USABLE)' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "nearcast needs Python 3.11 or newer with its venv module; tried: $(CANDIDATES)." >&2; \
		echo "Install one (Debian and Ubuntu: python3 and python3-venv) or name it: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	if [ -e .venv ] && ! $(BIN)/python -c '$(USABLE)' 2>/dev/null; then rm -rf .venv; fi; \
	echo "making .venv with $$("$$python" --version)"; \
	$(if $(UV),uv venv --quiet --allow-existing --python "$$python" .venv,"$$python" -m venv .venv)
	@touch $@

.venv/.ready: .venv/.made
	@rm -f $@
	@echo "installing the pinned packages (Spark is large: a few minutes the first time)"
	@$(if $(UV),$(INSTALL) -r requirements.lock,$(INSTALL_BESIDE_SPARK))
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch .venv/.demo $@

# Half of the packages are for work on the code: whoever wants to look at the demo first need not wait for them.
.venv/.demo: .venv/.made
	@rm -f $@
	@echo "installing what the demo needs (Spark is large: a minute or two the first time)"
	@$(INSTALL) --constraint requirements.lock '.[spark,server]' hatchling editables
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# What is never imported is never compiled to bytecode: most of what is installed.
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(if $(UV),uv pip install --quiet --python $(BIN)/python,$(PIP) install --quiet --no-compile)

# Spark comes as sources, and pip takes a minute to make a wheel of them: beside all others, which take as long.
define INSTALL_BESIDE_SPARK
set -e; trap 'kill $$spark 2>/dev/null || :' EXIT; \
$(PIP) wheel --quiet --no-deps --wheel-dir .venv/wheels "$$(grep '^pyspark==' requirements.lock)" & spark=$$!; \
grep -v '^pyspark==' requirements.lock > .venv/others.lock; \
$(INSTALL) --no-deps -r .venv/others.lock; \
wait $$spark; $(INSTALL) --no-deps .venv/wheels/pyspark-*.whl; rm -r .venv/wheels .venv/others.lock
endef

demo: .venv/.demo ## stream a generated city through embedded Spark, then open a living town to watch on a map
	@$(BIN)/nearcast demo

picture: .venv/.ready ## play the town and take the picture of its page for the README (needs Chromium: make browser)
	$(BIN)/python tools/picture.py

frames: .venv/.ready ## time the page's frames with 50,000 subscriptions and 10,000 messages (needs Chromium: make browser)
	$(BIN)/python tools/page_frames.py $(FRAMES_ARGS)

# Three runs: compiled; interpreted, where Python sees every mistake; with bounds checks, where a bad index raises.
# Tests of the papers' indexes are run once: interpreted those that can be, the others compiled. With bounds checks
# only those of many rows and long lives: a bad index in a small case raises when it is interpreted.
# Each keeps its own kernels, and absolute paths because tests start processes in other folders. Kernels are compiled
# before the tests, each once: workers of pytest that start together would compile most of them twice.
test: .venv/.ready ## run the tests: compiled, then a part with the JIT off and with bounds checks
	PYTHONPATH=tests $(BIN)/python -m contract.compile_all $(JOBS) $(CACHE)
	NEARCAST_CACHE_DIR=$(CACHE)/jit $(PYTEST) -m "not papers or not modes"
	NEARCAST_CACHE_DIR=$(CACHE)/nojit NUMBA_DISABLE_JIT=1 $(PYTEST) -m modes
	NEARCAST_CACHE_DIR=$(CACHE)/bounds NUMBA_BOUNDSCHECK=1 $(PYTEST) -m "modes and not papers and not small"

FAULT_TESTS := tests/pipeline/test_driver_faults.py tests/durable/test_outbox_faults.py $(addprefix tests/spark/test_,spark_faults.py two_spark_drivers.py kafka_faults.py)
SERVER_FAULT_TESTS := $(addprefix tests/server/test_server_,killed_often.py fuzz.py)
test-faults: .venv/.ready ## two drivers, kills and flaky disks for FAULT_MINUTES=30 minutes, then FAULT_KILLS and FAULT_REQUESTS of a server
	NEARCAST_CACHE_DIR=$(CACHE)/jit NEARCAST_FAULTS=$(FAULT_MINUTES) $(BIN)/python -m pytest -s $(FAULT_TESTS)
	NEARCAST_CACHE_DIR=$(CACHE)/jit NEARCAST_KILLS=$(FAULT_KILLS) NEARCAST_FUZZ=$(FAULT_REQUESTS) $(BIN)/python -m pytest -s $(SERVER_FAULT_TESTS)

browser: ## install Chromium for the tests of the page, where the system allows it (Debian, Ubuntu)
	apt-get install -y --no-install-recommends chromium fonts-dejavu-core

vendor: .venv/.ready ## fetch what the page is made with from the npm registry, with licences and hashes
	$(BIN)/python tools/vendor.py

check: .venv/.ready ## formatting, lint, types, spelling, known holes of the pinned packages
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/pip-audit --requirement requirements.lock --no-deps --disable-pip --progress-spinner off

figures: .venv/.ready ## redo the papers' figures at the papers' sizes: hours; goes on where it was stopped (FIGURES_ARGS="--only topk")
	@$(BIN)/nearcast bench figures --out docs/figures/papers $(FIGURES_ARGS)

bench: .venv/.ready ## time the boolean indexes on a modest workload (BENCH_ARGS="..." for another)
	@$(BIN)/nearcast bench boolean $(BENCH_ARGS)
