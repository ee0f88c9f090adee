# Each target sets up what it needs: a bare machine with Python >= 3.11 and a C compiler is enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Test workers share two cores; one thread each keeps cores x threads at cores.
TEST_WORKERS ?= 2

.PHONY: help demo test test-all lint format lock clean

help:
	@echo "make demo      render a shifted lot, calibrate, compare; opens as demo/index.html"
	@echo "make test      all fast tests"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make lint      ruff and mypy"
	@echo "make format    let ruff rewrite the sources"
	@echo "make lock      upgrade every dependency and rewrite constraints.txt"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip==26.3
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/sparcal demo --out demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile

test-all: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile -m ''

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy sparcal

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

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
