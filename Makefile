# make demo, make test, make lint: python3, pip and make are all they need.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
TIMED := .ci/timed

# Suites whose kernels run once more with every array index checked.
CHECKED := $(wildcard tests/test_atomics.py tests/test_ring.py $(addprefix tests/,decode wal book publish))

.PHONY: demo test lint clean

demo: $(INSTALLED)
	@$(BIN)/matchbox demo

test: $(INSTALLED)
	@$(TIMED) "kernels compiled" 2 $(BIN)/python -m matchbox.warm
	@$(TIMED) "all tests" 6 $(BIN)/python -m pytest -n auto --dist worksteal tests
	@NUMBA_BOUNDSCHECK=1 HYPOTHESIS_PROFILE=short \
	    $(TIMED) "kernels with bounds checked" 4 $(BIN)/python -m pytest -n auto --dist worksteal $(CHECKED)

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m matchbox.tables --check

$(INSTALLED): pyproject.toml
	@echo "installing packages into .venv (once; again only when pyproject.toml changes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
