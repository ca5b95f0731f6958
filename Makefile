# `make demo` and `make test` work on a machine with Python 3.10 or newer and nothing else.
# `TORCH=2.4.1 make test` takes another torch than constraints.txt.
PYTHON ?= python3
TORCH ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
LAUNCHERS_STAMP := $(VENV)/.launchers-installed
CONSTRAINTS := $(VENV)/constraints.txt
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

# The tests start Python often: its modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test pytest test-all lint format bench evidence docs clean

help:
	@echo "make demo      record and report a bundled training step"
	@echo "make test      ruff, mypy and the tests"
	@echo "make pytest    the tests alone"
	@echo "make test-all  ruff, mypy and all tests, those that take minutes too"
	@echo "make lint      ruff, mypy and the tables' own lint alone"
	@echo "make format    let ruff rewrite the sources"
	@echo "make bench     print the figures that docs/limits.md quotes"
	@echo "make evidence  hold the tables against torch, its builds and this machine"
	@echo "make docs      build the documentation site in site/; a dead link fails"
	@echo "make clean     remove the virtual environment and the caches"

demo: $(STAMP)
	$(BIN)/tracer demo

# The linters and the tests at the same time: the former take one core half a minute.
test: $(STAMP)
	$(MAKE) --no-print-directory -j 2 lint pytest

pytest: $(STAMP)
	$(PYTEST)

test-all: $(DOCS_STAMP) $(LAUNCHERS_STAMP) lint
	$(PYTEST) -m "slow or not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/tracer tables lint

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/report_time.py
	$(BIN)/python benchmarks/report_html.py
	$(BIN)/python benchmarks/judging.py
	$(BIN)/python benchmarks/many_traces.py
	$(BIN)/python benchmarks/many_places.py
	$(BIN)/python benchmarks/fake.py
	$(BIN)/python benchmarks/fake_ranks.py
	$(BIN)/python benchmarks/trials.py
	$(BIN)/python benchmarks/lines.py
	$(BIN)/python benchmarks/values.py
	$(BIN)/python benchmarks/repeat.py
	$(BIN)/python benchmarks/comparing.py
	$(BIN)/python benchmarks/compiled.py

evidence: $(STAMP)
	$(BIN)/python -m benchmarks.evidence

# Without --quiet, which hides the warnings from --strict too.
docs: $(DOCS_STAMP)
	$(BIN)/python docs/making/write.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed 's/^torch==.*/$(if $(TORCH),torch==$(TORCH),&)/' constraints.txt > $(CONSTRAINTS)
	$(INSTALL) --editable '.[test,lint]'
	touch $(STAMP)

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) --editable '.[docs]'
	touch $(DOCS_STAMP)

$(LAUNCHERS_STAMP): $(STAMP)
	$(INSTALL) --editable '.[launchers]'
	touch $(LAUNCHERS_STAMP)

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
