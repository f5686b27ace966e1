# `make` alone lists what can be done. Needs GNU make, a POSIX sh and Python 3.11 or newer; everything else is
# installed into .venv by `make setup`, at the versions and hashes of the lock files.

# As many processes as cores: Spark gives a Python process ten seconds to connect, which a busy machine may not manage.
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv
# The interpreters to try, in this order; `make setup PYTHON=/opt/python/bin/python3` tries only that one.
PYTHON ?= python3 python3.13 python3.12 python3.11
# Each process takes its share of the files in a row, so that what the tests of a file prepare is prepared once, and helps the others
# when it is done. Those on Spark have one session per process.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal

LOCKS := requirements-bootstrap.lock requirements.lock
# The versions of Spark that the tests run on beside the newest, which requirements.lock has: the oldest, as it first was, and those
# between. Each has a lock and an environment of its own.
SPARKS := 4.0.0 4.1.4 4.2.1
# What there is no time for each day takes turns: the i-th of n parts, by the day. `make test-all TURN=1/1` runs all.
DAY := $(shell echo $$(( $$(date +%s) / 86400 )))
turn = $(shell echo $$(( $(DAY) % $(1) + 1 )))
TURN ?= $(call turn,3)/3
# The oldest is always tried; of the others one, in turn. `make test-sparks TRIED="4.1.4 4.2.1"` chooses.
OLDEST := $(firstword $(SPARKS))
OTHERS := $(wordlist 2,$(words $(SPARKS)),$(SPARKS))
TRIED ?= $(OLDEST) $(word $(call turn,$(words $(OTHERS))),$(OTHERS))
SPARK_TESTS := $(addprefix tests/,whole/test_versions.py spark/join/test_join.py spark/join/test_partitions.py \
	spark/join/test_spark_restart.py spark/settle/test_spark_settle.py)
# What is made of kernels: played once more with every index checked, where the processes of Spark, files and commands are the same.
KERNEL_TESTS := src $(addprefix tests/,core engine generator multiway optimum policies shard simulator static statistics)
# Some of each kernel, played as plain Python too, as a debugger and a coverage tool see it.
PLAIN_TESTS := $(addprefix tests/,engine/test_one_option.py engine/test_against_oracle.py generator multiway optimum static)
# `make lock UPGRADE=1` moves to the newest versions; without it, versions move only where they must.
UPGRADE ?=
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# uv is told which environment to use, and never fetches an interpreter of its own.
export UV_PYTHON := $(BIN)/python
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
export UV_COMPILE_BYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: help setup sparks demo test test-all test-sparks chaos docs lint format lock bench clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## install the locked dependencies and the package into .venv
	@:

$(READY): pyproject.toml $(LOCKS)
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  found=; \
	  for candidate in $(PYTHON); do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      found=$$candidate; break; \
	    fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'penstock needs Python 3.11 or newer with its venv module: install it (on Debian and Ubuntu: apt install python3 python3-venv) and run make again.' >&2; \
	    exit 1; \
	  fi; \
	  echo "creating $(VENV) with $$found"; \
	  "$$found" -m venv --clear $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bootstrap.lock
	$(UV) pip sync --quiet --require-hashes requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

sparks: $(SPARKS:%=.venvs/spark-%/.ready) ## install the other supported versions of Spark, each into .venvs/spark-<version>
	@:

.venvs/spark-%/.ready: requirements-spark-%.lock pyproject.toml $(READY)
	@echo "installing Spark $* into $(@D)"
	@$(@D)/bin/python -c '' 2>/dev/null || $(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	@$(UV) pip sync --quiet --require-hashes --python $(@D)/bin/python $<
	@$(UV) pip install --quiet --no-deps --no-build-isolation --python $(@D)/bin/python --editable .
	@touch $@

# Spark needs Java. It is installed where that takes no questions; without it all else works, and the tests of Spark are skipped.
.PHONY: java
java:
	@major=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -lt 17 ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo 'installing Java 17 (openjdk-17-jre-headless)'; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null 2>&1 || true; \
	  fi; \
	  command -v java >/dev/null || echo 'Spark needs Java 17 or newer: install it (on Debian and Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME.' >&2; \
	fi

demo: kernels java ## join two streams on Spark in a tenth of the memory, and draw what comes out
	$(BIN)/penstock demo

lint: setup ## check style, format, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint kernels java ## lint, then the quick tests
	$(PYTEST) -m "not slow and not rest and not chaos"

# Compiled once, before the workers of the tests would each do it.
.PHONY: kernels
kernels: setup
	@echo 'compiling the kernels (about a minute, the first time)'
	@$(BIN)/penstock warm >/dev/null

# Status 5 is pytest's word for "nothing selected", which is no failure while no test is marked slow.
test-all: test ## test, then the slow tests, then kernels with their indexes checked and as Python, then other versions of Spark
	$(PYTEST) -m "slow or rest" --turn $(TURN) --hypothesis-profile=thorough || [ $$? -eq 5 ]
	NUMBA_BOUNDSCHECK=1 $(PYTEST) -m "not slow and not jit_only and not chaos" --turn $(TURN) --hypothesis-profile=brief $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not slow and not jit_only and not chaos" --turn $(TURN) --hypothesis-profile=brief $(PLAIN_TESTS)
	$(MAKE) test-sparks

# What touches an interface of Spark: joins, restarts, settling, metrics, pipelines; the wheel and Connect on the oldest. All tests
# run on the newest. PySpark before 4.2 leaves its sockets to the collector of garbage, which is no fault of ours.
test-sparks: kernels java $(TRIED:%=.venvs/spark-%/.ready) ## the tests that touch Spark's own interfaces, on its oldest supported version and another
	set -e; for version in $(TRIED); do \
	  echo "Spark $$version"; \
	  .venvs/spark-$$version/bin/pytest -n $(JOBS) --dist worksteal -W 'ignore:unclosed <socket:ResourceWarning' \
	    -m "versions or not (slow or chaos)" --turn $(TURN) $(SPARK_TESTS); \
	done
	.venvs/spark-$(OLDEST)/bin/pytest -n $(JOBS) -m slow \
	  tests/whole/test_wheel.py tests/whole/test_deployment.py tests/spark/join/test_spark_connect.py

chaos: setup kernels java ## kill joins, their workers and executors, settlements and reshards, more than forty times
	$(BIN)/pytest -m "chaos or slow" tests/whole/test_chaos.py

# The site has an environment of its own: what builds it is not needed to run or to test.
DOCS := .venvs/docs
docs: java $(DOCS)/.ready ## build the site into site/; a broken link or a block of code that does not run fails
	$(DOCS)/bin/python docs/run_blocks.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo 'site/index.html is the site'

$(DOCS)/.ready: requirements-docs.lock pyproject.toml $(READY)
	@echo "installing what builds the site into $(@D)"
	@$(@D)/bin/python -c '' 2>/dev/null || $(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	@$(UV) pip sync --quiet --require-hashes --python $(@D)/bin/python $<
	@$(UV) pip install --quiet --no-deps --no-build-isolation --python $(@D)/bin/python --editable .
	@touch $@

format: setup ## put the code in order: sorted imports, safe fixes, layout
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: setup ## make the lock files again (UPGRADE=1: with the newest versions)
	echo uv | $(COMPILE) --no-annotate --output-file requirements-bootstrap.lock -
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	cat requirements.lock > requirements-docs.lock
	$(COMPILE) --extra dev --extra docs --output-file requirements-docs.lock pyproject.toml
	@# What requirements.lock has is preferred, so that the environments differ in Spark alone.
	set -e; for version in $(SPARKS); do \
	  cp requirements.lock requirements-spark-$$version.lock; \
	  echo "pyspark==$$version" | $(COMPILE) --extra test --output-file requirements-spark-$$version.lock pyproject.toml -; \
	done

bench: setup ## measure the speed of the join core
	$(BIN)/penstock bench core

clean: ## remove caches and output, but not .venv
	rm -rf build dist demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
