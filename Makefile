# Each target sets up what it needs: a bare machine with Python >= 3.11 and a C compiler is enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Test workers share two cores; one thread each keeps cores x threads at cores.
TEST_WORKERS ?= 2

.PHONY: help demo docs test test-all test-anomalib speed browser lint format lock lock-anomalib clean

help:
	@echo "make demo      render a shifted lot, calibrate, compare; opens as demo/index.html"
	@echo "make test      all fast tests, and how much of the package they reach"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make test-anomalib  the tests with anomalib, in an environment of their own"
	@echo "make speed     every hot path against a peer, ten minutes; writes docs/explanation/speed.md"
	@echo "make docs      the documentation site, offline; opens as build/site/index.html"
	@echo "make lint      ruff and mypy"
	@echo "make format    let ruff rewrite the sources"
	@echo "make lock      upgrade every dependency and rewrite constraints.txt"
	@echo "make lock-anomalib  the same for the environment with anomalib"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip==26.3
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/sparcal demo --out demo

# Prints how much of sparcal/ the tests of this process reach; what runs in processes of its own is not counted.
COVERAGE := --cov --cov-report=term:skip-covered

test: $(READY) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile $(COVERAGE)

test-all: $(READY) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile -m ''

# The page is tested in a real browser; SPARCAL_NO_BROWSER=1 leaves those tests out.
BROWSERS := chromium chromium-browser google-chrome
browser:
	@if [ -n "$$SPARCAL_NO_BROWSER" ]; then exit 0; fi; \
	for name in $(BROWSERS); do if command -v $$name > /dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; \
	else \
		echo "The web tests need one of: $(BROWSERS). Install it (apt-get install chromium), or set SPARCAL_NO_BROWSER=1." >&2; exit 1; \
	fi

# anomalib's pins (open_clip below 2.26.1) do not fit the main environment, so its tests have their own; the speed page,
# which needs anomalib and faiss as peers, runs there too.
ANOMALIB := .venv-anomalib
ANOMALIB_NEEDS := --editable '.[anomalib,bench,export]' 'anomalib[clip]' torchvision faiss-cpu pytest

$(ANOMALIB)/.ready: pyproject.toml constraints-anomalib.txt
	$(PYTHON) -m venv $(ANOMALIB)
	$(ANOMALIB)/bin/python -m pip install --quiet --disable-pip-version-check pip==26.3
	$(ANOMALIB)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-anomalib.txt $(ANOMALIB_NEEDS)
	@touch $@

test-anomalib: $(ANOMALIB)/.ready
	OMP_NUM_THREADS=1 $(ANOMALIB)/bin/python -m pytest tests/integrations/anomalib

# Under ten minutes on two cores that do nothing else; writes docs/explanation/speed.md.
speed: $(ANOMALIB)/.ready
	$(ANOMALIB)/bin/python -m speed

# Strict: a broken link or a missing name fails. Built from nothing each time, so that the bytes depend on the sources alone.
docs: $(READY)
	rm -rf build/site build/site-trees
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/site-trees docs build/site
	@echo "The site is build/site/index.html."

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy sparcal tests speed

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet pip==26.3
	$(BIN)/python -m pip install --editable '.[dev]' torchvision
	(echo "# Every version of a development install, pinned together (torch and torchvision must match); make lock rewrites it."; \
	 $(BIN)/python -m pip list --format=freeze | grep -v -E '^(pip|setuptools|sparcal)=' | sort -f) > constraints.txt
	@touch $(READY)

lock-anomalib:
	rm -rf $(ANOMALIB)
	$(PYTHON) -m venv $(ANOMALIB)
	$(ANOMALIB)/bin/python -m pip install --quiet pip==26.3
	$(ANOMALIB)/bin/python -m pip install $(ANOMALIB_NEEDS)
	(echo "# Every version of the environment with anomalib, pinned together; make lock-anomalib rewrites it."; \
	 $(ANOMALIB)/bin/python -m pip list --format=freeze | grep -v -E '^(pip|setuptools|sparcal)=' | sort -f) > constraints-anomalib.txt
	@touch $(ANOMALIB)/.ready

clean:
	rm -rf $(VENV) $(ANOMALIB) demo build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
