# Each target sets up what it needs: a bare machine with Python >= 3.11 and a C compiler is enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Test workers share two cores; one thread each keeps cores x threads at cores.
TEST_WORKERS ?= 2

.PHONY: help demo docs docs-check pictures notebooks test test-all test-gpu test-anomalib test-lowest test-highest release-check speed browser \
	lint format lock lock-anomalib lock-lowest clean

help:
	@echo "make demo      render a shifted lot, calibrate, compare; opens as demo/index.html"
	@echo "make test      all fast tests, and how much of the package they reach"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make test-gpu  what a graphics card computes against the processor; needs one"
	@echo "make test-anomalib  the tests with anomalib, in an environment of their own"
	@echo "make test-lowest    the fast tests on the lowest allowed versions of all dependencies"
	@echo "make test-highest   the fast tests on the newest versions that there are"
	@echo "make release-check  build, install the wheel alone elsewhere, and walk through it"
	@echo "make speed     every hot path against a peer, twelve minutes; writes docs/explanation/speed.md"
	@echo "make docs      the documentation site, offline; opens as build/site/index.html"
	@echo "make notebooks run the notebooks of examples/ again and keep what they show"
	@echo "make lint      ruff and mypy"
	@echo "make format    let ruff rewrite the sources"
	@echo "make lock      upgrade every dependency and rewrite constraints.txt"
	@echo "make lock-anomalib  the same for the environment with anomalib"
	@echo "make lock-lowest    work out the lowest allowed versions again: constraints-lowest.txt"

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

# The lower bounds of pyproject.toml, and the newest versions without any lock, each in an environment of its own.
# What the tests themselves use is not under test, so it stays as new as it likes; tests/repo and tests/system/site look at
# sources and pages alone; and old versions may warn of what newer ones have mended.
PRODUCT := clip,bench,notebook,ray,server,export
TEST_TOOLS := pytest pytest-xdist hypothesis httpx scikit-image tifffile playwright axe-playwright-python schemathesis \
	build ipykernel nbclient nbformat
BOTH_ENDS := -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile --ignore tests/repo --ignore tests/system/site -W default

.venv-lowest/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable '.[$(PRODUCT)]' torchvision $(TEST_TOOLS)
	@touch $@

test-lowest: .venv-lowest/.ready browser
	OMP_NUM_THREADS=1 .venv-lowest/bin/python $(BOTH_ENDS)

test-highest: browser
	$(PYTHON) -m venv --clear .venv-highest
	.venv-highest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade \
		--editable '.[$(PRODUCT)]' torchvision $(TEST_TOOLS)
	OMP_NUM_THREADS=1 .venv-highest/bin/python $(BOTH_ENDS)

# With TAG=v1.2.3 also: may this be released under that tag? The walk must not see the sources, so it leaves the clone.
release-check: $(READY)
	$(BIN)/python -m release.changelog $(TAG)
	rm -rf dist
	$(BIN)/python -m build
	place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && \
	cp release/walk.py constraints.txt dist/*.whl "$$place" && cd "$$place" && unset PYTHONPATH && \
	$(abspath $(BIN))/python -m venv env && \
	env/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		"$$(echo ./*.whl)[server,export]" && \
	env/bin/python walk.py

# Needs a card that PyTorch can use; every other target leaves cards alone.
test-gpu: $(READY)
	SPARCAL_TEST_GPU=1 $(BIN)/python -m pytest tests/system/test_on_a_card.py

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

# About twelve minutes on two cores that do nothing else; writes docs/explanation/speed.md.
speed: $(ANOMALIB)/.ready
	$(ANOMALIB)/bin/python -m speed

# Strict: a broken link or a missing name fails. Built from nothing each time, so that the bytes depend on the sources alone.
docs: $(READY)
	rm -rf build/site build/site-trees
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/site-trees docs build/site
	@echo "The site is build/site/index.html."

docs-check: docs
	rm -rf build/site-again build/site-trees
	$(BIN)/python -m sphinx --quiet --doctree-dir build/site-trees docs build/site-again
	diff --recursive build/site build/site-again

# What the notebooks keep and the site shows: runs each where it lies, about two minutes; they write to temporary folders.
notebooks: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python docs/_site/run_notebooks.py

# The pictures of the web station, a few minutes; writes docs/pictures.
pictures: $(READY) browser
	OMP_NUM_THREADS=1 $(BIN)/python docs/_site/pictures.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy sparcal tests speed release

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

# uv knows how to take the lowest version of what we ask for ourselves; torchvision then follows torch.
comma := ,
LOWEST_EXTRAS := $(foreach extra,$(subst $(comma), ,$(PRODUCT)),--extra $(extra))
lock-lowest:
	$(PYTHON) -m venv --clear .venv-uv
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	(echo "# The lowest versions that pyproject.toml allows; make lock-lowest rewrites it."; \
	 .venv-uv/bin/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 --no-header --no-annotate \
		$(LOWEST_EXTRAS) pyproject.toml) > constraints-lowest.txt
	rm -rf .venv-uv

clean:
	rm -rf $(VENV) .venv-lowest .venv-highest $(ANOMALIB) demo build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
