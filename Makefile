# The two commands of the README are `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := manage.py workspace agents observability tests
ARGUMENTS ?=

.PHONY: run test lint format bench chaos lock dev

run: $(VENV)/base.stamp
	$(BIN)/python manage.py up $(ARGUMENTS)

test: dev
	$(BIN)/python -m tests.harness suites

lint: dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/python -m tests.harness templates
	$(BIN)/mypy

format: dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	git ls-files -z 'templates/*.html' | xargs -0 -r $(BIN)/djade --target-version 5.2

bench: dev
	$(BIN)/python -m tests.bench $(ARGUMENTS)

chaos: dev
	$(BIN)/python -m tests.chaos $(ARGUMENTS)

# uv when there is one, else pip-tools would be needed: uv is the smaller ask.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv; install it first." >&2; exit 1; }
	cd requirements && for name in base dev; do \
	  UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
	  $$name.in --output-file $$name.txt || exit 1; done

dev: $(VENV)/dev.stamp

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed; $(PYTHON) is" \
	  "$$($(PYTHON) -V 2>&1 || echo missing). Try: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "The virtual environment was not made; on Debian: apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }

$(VENV)/base.stamp: requirements/base.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements/base.txt
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/base.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements/dev.txt
	@touch $@
