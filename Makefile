# Everything here works on a fresh clone with Python 3.11+ and make: the first target that needs it makes .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
INSTALL := $(PIP) --no-build-isolation --editable

# make QUICK=1 bench: does it run? Small sizes, every call once, and nothing of it is kept.
QUICK ?=
FLAG := $(if $(QUICK),--quick)

# Every command that the README, the pages and this file name, but for tests and lint.
COMMANDS := demo bench bench-compare bench-serve bench-others bench-gpu paper paper-full pictures shown docs

.PHONY: $(COMMANDS) commands test test-fast test-gpu test-native lint format clean browser java

demo: $(VENV)/.demo
	$(BIN)/ifonly demo

# One worker more than there are cores, with one thread each for matrix products: servers, browsers and clusters are waited for.
# Compiled Python is kept, also where the shell says not to: every worker reads all tests, and every server the whole package.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8

test: $(VENV)/.test browser java
	$(PYTEST)

# While working: without a browser, a cluster, a GPU or anything that takes seconds, and four cases of each test.
test-fast: $(VENV)/.test
	$(PYTEST) --fast

# The compiled row loops under AddressSanitizer and UndefinedBehaviorSanitizer, with every test that calls them; in an environment
# of its own that sees the packages of the other.
SANITIZED := .venv-sanitized
test-native: $(VENV)/.test
	$(PYTHON) -m venv --without-pip --clear $(SANITIZED)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$($(SANITIZED)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/others.pth
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip --python $(SANITIZED)/bin/python --disable-pip-version-check install --quiet --no-deps \
		--no-build-isolation --config-settings cmake.define.IFONLY_SANITIZE=ON --config-settings build-dir=build/sanitized --editable .
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" \
		OMP_NUM_THREADS=1 $(SANITIZED)/bin/python -m pytest -q -n $(WORKERS) --maxprocesses 8 tests/native tests/engines tests/golden

# Chromium for the tests of the page (its headless shell, which takes a fifth less time, where there is one), from Debian's packages
# where that is possible; elsewhere these tests say why they skip.
browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
		|| { apt-get update -q && { apt-get install -y -q --no-install-recommends chromium-headless-shell \
			|| apt-get install -y -q --no-install-recommends chromium; }; } \
		|| echo "no Chromium: the tests of the page will be skipped"

# Java for the tests of Spark, likewise.
java:
	@command -v java >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
		|| { apt-get update -q && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless; } \
		|| echo "no Java: the tests of Spark will be skipped"

# On a machine with an NVIDIA GPU; elsewhere every test is skipped. One line says what passed, or all of it what did not.
test-gpu: $(VENV)/.test
	$(INSTALL) '.[gpu]'
	@mkdir -p build
	@$(BIN)/python -m pytest -q tests/gpu > build/test-gpu.log 2>&1 && tail -n 1 build/test-gpu.log || { cat build/test-gpu.log; exit 1; }

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(VENV)/.lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All of them, in their quick form; it ends with the first that fails.
commands:
	@$(MAKE) --no-print-directory QUICK=1 $(COMMANDS)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/run.py $(FLAG)

bench-serve: $(VENV)/.test
	$(BIN)/python benchmarks/serve.py $(FLAG)

bench-others: $(VENV)/.test java
	$(BIN)/python benchmarks/classes.py $(FLAG)
	$(BIN)/python benchmarks/vocabulary.py $(FLAG)
	$(BIN)/python benchmarks/limits.py $(FLAG)
	$(BIN)/python benchmarks/recourse.py $(FLAG)
	$(BIN)/python benchmarks/rows.py $(FLAG)
	$(BIN)/python benchmarks/spark_rows.py $(FLAG)

# Without a GPU it says so.
bench-gpu: $(VENV)/.test
	@! command -v nvidia-smi >/dev/null || $(INSTALL) '.[gpu]'
	$(BIN)/python benchmarks/gpu.py $(FLAG)

A ?= benchmarks/results/reference.json
B ?= $(if $(QUICK),$(A),benchmarks/results/latest.json)
bench-compare: $(VENV)/.made
	$(BIN)/python benchmarks/compare.py $(A) $(B)

paper: $(VENV)/.paper
	$(BIN)/python -m experiments.run $(FLAG)

paper-full: $(VENV)/.paper
	$(BIN)/python -m experiments.run --full $(if $(QUICK),--quick figure4)

# Those of the README and of the gallery.
pictures: $(VENV)/.test
	$(BIN)/python docs/picture.py $(FLAG)
	$(BIN)/python docs/gallery.py $(FLAG)

# The commands that the README and the pages show, in a temporary folder.
shown: $(VENV)/.test
	$(BIN)/python docs/commands.py

# The pages, with the examples run as notebooks; with QUICK=1 these take small sizes.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(SANITIZED) docs/_build docs/notebooks build .pytest_cache .ruff_cache .hypothesis

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# What compiles the row loops, in the environment itself: so they are compiled once, and again only where they changed. (setuptools
# is for PySpark, which comes as source: one that is older than 70.1, or none, as in Python 3.12, cannot make a wheel of it.)
$(VENV)/.tools: $(VENV)/.made
	$(PIP) --upgrade pip
	$(PIP) scikit-build-core nanobind ninja hatch-fancy-pypi-readme setuptools $(if $(shell command -v cmake),,cmake)
	@touch $@

# One stamp per set of packages, so that the second call installs nothing.
NATIVE := CMakeLists.txt $(wildcard src/ifonly/native/*.hpp src/ifonly/native/*.cpp)

$(VENV)/.demo: $(VENV)/.tools pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) '.[sklearn,cli]'
	@touch $@

$(VENV)/.test: $(VENV)/.tools pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) . --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PIP) --group lint
	@touch $@

$(VENV)/.paper: $(VENV)/.tools pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) . --group paper
	@touch $@

$(VENV)/.docs: $(VENV)/.tools pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) '.[all]' --group docs
	@touch $@
