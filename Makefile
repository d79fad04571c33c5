# Every command that a person, a hook or CI calls. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-kafka check fmt clean

help: ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## Make the virtual environment and install everything, pinned.

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "lorebus: making $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "lorebus: installing (about a minute the first time) ..."
	@PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

run: setup ## Keep the whole system up: PostgreSQL, broker, gateway and four consumers.
	@exec $(BIN)/lorebus up

demo: setup ## Show the main job on real sessions; starts the system if none runs.
	@exec $(BIN)/lorebus demo

test: setup ## The whole suite on the embedded PostgreSQL and broker (or what the environment names).
	$(BIN)/pytest

test-kafka: setup ## The same suite on Apache Kafka (jars by Maven, Java of the machine), and what needs three brokers.
	LOREBUS_TEST_BROKER=kafka $(BIN)/pytest

check: setup ## The one definition of clean.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=libs:services $(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/pytest -q tests/unit tests/contract

fmt: setup ## Format and apply the safe fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what the commands made, the memory in .lorebus/ included.
	rm -rf $(VENV) .lorebus .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
