PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready-dev

.DEFAULT_GOAL := help
.PHONY: help demo pictures test quick coverage lint fmt crash crash-long versions bench bench-quick bench-pairs bench-size bench-raw docs docs-serve clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-11s %s\n", $$1, $$2}'

# An environment with one extra of pyproject.toml: dev has all, cli is enough for the demo.
$(VENV)/.ready-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Packhorse needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Creating an environment in $(VENV) with packhorse[$*]. This takes a minute or two and prints nothing."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

demo: $(VENV)/.ready-cli  ## Watch every kind of job run, live; needs no server. DEMO=--help lists the options
	$(BIN)/packhorse demo $(DEMO)

pictures: $(READY)  ## Update the terminal pictures in docs/images
	$(BIN)/python -m docs.gen.pictures docs/images

TEST_PROCESSES ?= 3  # on two cores: many tests wait for a lease to lapse or a process to start

test: $(READY)  ## Run all tests on real SQLite, Redis, Valkey and PostgreSQL
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup

quick: $(READY)  ## Unit, house and conformance tests on SQLite, under a minute
	PACKHORSE_TEST_STORES=sqlite $(BIN)/python -m pytest -n 2 --dist loadgroup tests/unit tests/house tests/conformance

coverage: $(READY)  ## Measure which lines and branches the tests reach; TESTS="tests/unit tests/cli" runs only these
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist loadgroup $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(READY)  ## Check style, types and import floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: $(READY)  ## Format the code and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crash: $(READY)  ## Kill workers, producers and servers, and count what is lost; CRASH=--help lists the options
	$(BIN)/python -m tests.crash $(CRASH)

bench: $(READY)  ## Compare Packhorse with all peers, about an hour, resumable; writes docs/performance. BENCH=--help lists the options
	$(BIN)/python -m benchmarks.full $(BENCH)

PROOF := docs/operate/proof.jsonl
LONG_TESTS ?= tests/integration tests/crash/test_kills.py tests/conformance/test_rolling_upgrade.py $(addprefix tests/features/test_,weights.py waiting.py waiting_storm.py within_writers.py killed_ticks.py many_schedules.py killed_lanes.py killed_plans.py killed_letters.py alerts.py alert_workers.py plan_children.py bulk_killed.py followed_events.py) tests/engine/test_simulation.py tests/properties/test_machine.py

crash-long: export PACKHORSE_PROOF := $(CURDIR)/$(PROOF)
crash-long: $(READY)  ## Crash and disturb every store at a large scale; takes hours, and writes docs/operate/proof.md
	@failed=0; \
	$(BIN)/python -m tests.crash --times 25 $(CRASH) || failed=1; \
	PACKHORSE_TEST_LONG=1 $(BIN)/python -m pytest --timeout=0 -p no:xdist -p tests.crash.proof -s $(LONG_TESTS) || failed=1; \
	$(BIN)/python -m tests.crash.proof || failed=1; \
	exit $$failed

versions: export PACKHORSE_PROOF := $(CURDIR)/$(PROOF)
versions: $(READY)  ## Run conformance and integration tests on other releases of the servers; VERSIONS=--help lists them
	@failed=0; $(BIN)/python -m tests.versions $(VERSIONS) || failed=1; $(BIN)/python -m tests.crash.proof; exit $$failed

bench-quick: $(READY)  ## Compare Packhorse with some peers, about two minutes; BENCH=--help lists the options
	$(BIN)/python -m benchmarks.quick $(BENCH)

bench-pairs: $(READY)  ## Compare processor time per job with an older revision: BENCH="--before HEAD~1", five minutes
	$(BIN)/python -m benchmarks.pairs $(BENCH)

bench-size: $(READY)  ## Time calls in a store with 10 million finished and 1 million scheduled jobs, hours; BENCH=--small is a tenth
	$(BIN)/python -m benchmarks.size $(BENCH)

bench-raw: $(READY)  ## Exchange throughput of each store, batch 1 to 500
	$(BIN)/python -m benchmarks.raw

docs: $(READY)  ## Build the documentation into site/; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(READY)  ## Serve the documentation, rebuilt on every change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean:  ## Remove the environment and caches
	rm -rf $(VENV) .bench site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
