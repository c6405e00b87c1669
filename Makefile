# Everything here works on a fresh clone with Python 3.11+ and make: the first target that needs it makes .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test test-fast test-gpu lint format bench bench-compare bench-serve bench-gpu paper paper-full docs clean browser java

demo: $(VENV)/.demo
	$(BIN)/ifonly demo

# One worker a core, with one thread each for matrix products.
WORKERS ?= logical
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8

test: $(VENV)/.test browser java
	$(PYTEST)

# While working: without a browser, a cluster, a GPU or anything that takes a minute, and five cases of each test.
test-fast: $(VENV)/.test
	$(PYTEST) --fast

# Chromium for the tests of the page, from Debian's packages where that is possible; elsewhere these tests say why they skip.
browser:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
		|| { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; } \
		|| echo "no Chromium: the tests of the page will be skipped"

# Java for the tests of Spark, likewise.
java:
	@command -v java >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
		|| { apt-get update -q && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless; } \
		|| echo "no Java: the tests of Spark will be skipped"

# On a machine with an NVIDIA GPU; elsewhere every test says why it is skipped.
test-gpu: $(VENV)/.test
	$(PIP) --editable '.[gpu]'
	$(BIN)/python -m pytest -q -m gpu tests/gpu tests/native

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(VENV)/.lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python benchmarks/run.py

bench-serve: $(VENV)/.test
	$(BIN)/python benchmarks/serve.py

bench-gpu: $(VENV)/.test
	$(PIP) --editable '.[gpu]'
	$(BIN)/python benchmarks/gpu.py

A ?= benchmarks/results/reference.json
B ?= benchmarks/results/latest.json
bench-compare: $(VENV)/.made
	$(BIN)/python benchmarks/compare.py $(A) $(B)

paper: $(VENV)/.paper
	$(BIN)/python -m experiments.run

paper-full: $(VENV)/.paper
	$(BIN)/python -m experiments.run --full

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build build .pytest_cache .ruff_cache .hypothesis

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# One stamp per set of packages, so that the second call installs nothing.
$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --editable '.[sklearn,cli]'
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --upgrade pip
	$(PIP) --editable . --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PIP) --group lint
	@touch $@

$(VENV)/.paper: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --upgrade pip
	$(PIP) --editable . --group paper
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --upgrade pip
	$(PIP) --editable . --group docs
	@touch $@
