# Every target sets up the virtual environment it needs; a second run finds it done.
#   make demo   embed real sentences through a real nats-server
#   make test   the whole test suite        make check  ruff and mypy
#   make test-bench  benches from end to end
#   make test-ops  what is in ops/, with real Docker and Prometheus; make ops-packages installs them (Debian, root)
#   make bench  Headrace and its peers side by side, within 20 minutes; make bench-quick within 3. Both install the peers
#               first if need be, each in an environment of its own: make bench-peers
#   make dev    the environment only, for your editor
#   make gpu-check  check and measure the engine on a CUDA device; without one, what can be on a CPU
#   make lock   write requirements.lock anew from pyproject.toml

PYTHON ?= python3
BIN := .venv/bin
# A constraint also pins what pip installs to build the package.
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles what it imports, when it first does. All 19,000 files that are installed would take a minute, and few are.
PIP := $(BIN)/python -m pip install --quiet --no-compile
# Two processes of tests a core (tests/conftest.py), each with fleets of its own; eight at most, since each has torch and
# models in memory.
# Files stay whole, for the sake of what their tests share, and in order, so that the long ones do not come last.
SPREAD := -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-bench test-ops ops-packages check bench bench-quick bench-peers gpu-check dev lock clean

demo: .venv/.demo
	$(BIN)/headrace demo
	@echo '(. .venv/bin/activate puts the command on your path)'

test: .venv/.dev .venv/.kernels
	$(BIN)/pytest $(SPREAD) -m "not whole_run" $(ARGS)

# Benches from end to end: minutes of work of all cores, for who changes bench/ or what it measures.
test-bench: .venv/.dev
	$(BIN)/pytest tests/bench -m whole_run $(ARGS)

# Installs nothing. What it misses it says first, and skips the tests that need it.
test-ops: .venv/.dev
	-$(BIN)/python tests/ops/packages.py
	$(BIN)/pytest tests/ops $(ARGS)

ops-packages:
	$(PYTHON) tests/ops/packages.py --install

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.dev bench-peers
	$(BIN)/python bench/run.py $(ARGS)

bench-quick: .venv/.dev bench-peers
	$(BIN)/python bench/run.py --quick $(ARGS)

# Whoever cannot be installed is said so, here and in the report; the others are measured all the same.
bench-peers: .venv/.dev
	-PIP_CONSTRAINT= $(BIN)/python bench/peers/install.py

gpu-check: .venv/.dev
	$(BIN)/python bench/gpu_check.py $(ARGS)

dev: .venv/.dev

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headrace needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml requirements.lock | .venv/bin/python
	$(PIP) -e '.[demo]'
	touch $@

.venv/.dev: pyproject.toml requirements.lock | .venv/bin/python
	$(PIP) -e '.[dev]'
	touch $@ .venv/.demo

# The sources that calls to CUDA kernels are checked against: downloaded, not installed, which would take 100 times as long.
.venv/.kernels: tests/engine/kernels.txt | .venv/bin/python
	rm -rf .venv/kernels
	$(BIN)/python -m pip download --quiet --no-deps --dest .venv/kernels -r tests/engine/kernels.txt
	touch $@

# Versions that the lock names already are kept; PIP_COMPILE="--upgrade" or "--upgrade-package X" moves them. The local
# label of a torch build (+cpu) is dropped, so the same pin serves CPU and CUDA indexes; our own package is no pin.
lock: .venv/.dev
	PIP_CONSTRAINT= $(BIN)/pip-compile --quiet $(PIP_COMPILE) --extra dev --all-build-deps --strip-extras --allow-unsafe \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate \
		--output-file requirements.lock pyproject.toml
	sed -i -e 's/+cpu$$//' -e '/^headrace @/d' -e '/^#/d' -e '/^$$/d' requirements.lock

clean:
	rm -rf .venv
