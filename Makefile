# make setup       everything that is needed, into ./.venv (the other targets call it; the second time it does nothing)
# make wheels      everything that pip installs as files in build/wheels/, for make setup WHEELS=folder without a network
# make doctor      what is installed and what is missing
# make preflight   words counted on both engines, and one line: ready (half a minute)
# make demo        flights and word count on both engines, side by side (two to five minutes)
# make lab         the course, in JupyterLab (the copy for students: make lab FOLDER=build/room/student)
# make quick       the first answer: lint, types, the tests without Spark (but not the site), the golden scripts, 25 comparisons with Spark
# make test-changed     the tests that your change since main touches (since another commit: make test-changed SINCE=HEAD~1)
# make unit        the tests without Spark
# make test        the checks, with a sample of the tests that need Spark; CI=true make test runs all of them, as CI does (with every case: CASES=1)
# make crash-test  queries of every kind killed at each durable action, and run to the end (a part: make crash-test PART=2/4)
# make mutants     planted bugs, each of which some test must find (some of them: make mutants MUTANTS=epoch, MUTANTS=2/4)
# make lint types  style, spelling and types only: seconds
# make bench       milliseconds per trigger, model against Spark, in thirteen workloads (of one: make bench BENCH='--only join-20k')
# make package-test    the package built, installed into clean environments and used there: about 1.3 GB
# make versions    every tool, and the cases of Spark's suites, on every Spark from 3.5 to 4.3, classic and Connect: about 5 GB (of one: make versions VERSIONS=3.5)
# make record      what Spark does in the comparisons written down, where no recording fits (of some: make record ONLY=tests/conformance/test_limit.py)
# make rewrite-golden   the golden scripts written anew, as the model plays them; read the diff before you commit it
# make rewrite-notebooks  all notebooks run again and saved with what they say (one: ONLY=notebooks/04*.ipynb)
# make new         something of your own, with its test: make new KIND=operator NAME=every_nth (docs/extending.md)
# make docs        the parts of docs/ that repeat what the code says
# make pictures    the pictures of docs/ (needs graphviz and Chromium)
# make site        the course and docs/ as a site that opens from disk: build/site/index.html
# make room        for a teacher: notebooks without solutions, the answer key, slides, all in build/room
# make reset       the notebooks as they were; what was changed in them stays in git's stash
# make clean       what builds and tests leave behind

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := .venv/bin
# Spark's Python workers must be this Python, and a laptop or container may have a host name that does not resolve.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_LOCAL_IP ?= 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.PHONY: help setup system preflight demo test check lint types unit quick test-changed crash-test mutants package-test versions record rewrite-golden notebooks rewrite-notebooks lab bench docs new pictures site room reset doctor wheels clean

help:
	@sed -n 's/^# make /make /p' Makefile

# --- set-up ---------------------------------------------------------------------------------------------------------

# Runs a command and shows what it prints only when it fails, then all of it.
QUIETLY = quietly() { log=$$(mktemp); if "$$@" >"$$log" 2>&1 </dev/null; then rm "$$log"; else cat "$$log" >&2; rm "$$log"; return 1; fi; }; quietly

# With WHEELS=folder, pip takes all from there and asks no network.
EXTRAS := delta,demo,notebooks,site,test
OFFLINE := $(if $(WHEELS),--no-index --find-links='$(abspath $(WHEELS))')
# CI installs what is known to work together; anybody else gets the newest that the ranges of pyproject.toml allow.
ifeq ($(CI),true)
export PIP_CONSTRAINT := $(wildcard $(CURDIR)/.ci/constraints.txt)
endif

setup: system .venv/.installed

# The stamp is newer than pyproject.toml when the environment is up to date.
.venv/.installed: pyproject.toml
	@python=$$(for p in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	    if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null; then echo "$$p"; break; fi; \
	done); \
	if [ -z "$$python" ]; then \
	    echo "missing: Python 3.11 or newer with venv (PySpark 4.3 needs it): apt-get install python3-venv, or make setup PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	echo "creating .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv
	@echo "installing packages (about a minute)"
	@$(QUIETLY) $(BIN)/python -m pip install $(OFFLINE) --upgrade pip
	@$(QUIETLY) $(BIN)/python -m pip install $(OFFLINE) -e '.[$(EXTRAS)]'
	@touch $@
	@echo "ready"

# Java and dot are not Python packages: install them where that is possible, else say what to do.
system:
	@missing=""; \
	major=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 </dev/null | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true; \
	if [ "$${major:-0}" -lt 17 ]; then missing="java"; fi; \
	if ! command -v dot >/dev/null; then missing="$$missing graphviz"; fi; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	sudo=""; if [ "$$(id -u)" != 0 ]; then sudo="sudo -n"; fi; \
	if ! command -v apt-get >/dev/null || ! $$sudo true 2>/dev/null; then \
	    echo "missing:$${missing:+ $$missing}; get it with apt-get install openjdk-17-jre-headless graphviz, brew install openjdk@17 graphviz, or conda (environment.yml)" >&2; exit 0; \
	fi; \
	packages="$${missing/java/}"; \
	$(QUIETLY) $$sudo apt-get update -qq || true; \
	if [ "$$packages" != "$$missing" ]; then \
	    if [ -n "$$(apt-cache --names-only search '^openjdk-17-jre-headless$$')" ]; then packages="$$packages openjdk-17-jre-headless"; \
	    else packages="$$packages default-jre-headless"; fi; \
	fi; \
	echo "installing$$packages"; \
	$(QUIETLY) $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$packages || \
	    echo "missing: $$missing; apt-get install$$packages did not work, see above" >&2

# Also what pip itself needs to build the package: hatchling and editables.
wheels: setup
	@echo "writing build/wheels (a minute or two)"
	@$(QUIETLY) $(BIN)/python -m pip wheel --wheel-dir build/wheels pip editables '.[$(EXTRAS)]'
	@rm -f build/wheels/minispark_stream-*.whl
	@echo "then, on a machine with the same system and the same Python: make setup WHEELS=build/wheels"

doctor: setup
	@$(BIN)/python -m minispark_stream doctor

# --- run ------------------------------------------------------------------------------------------------------------

preflight: setup
	@said=$$($(BIN)/python -m minispark_stream.tools.preflight 2>&1 | tail -n 1); echo "$${said/#ok /ready: }"; [[ $$said == ok\ * ]]

demo: setup
	@$(BIN)/python -m minispark_stream demo

# What a notebook that came from elsewhere has saved is shown when it is trusted; these are our own. The server's root is this folder,
# because the notebooks lead to docs/. With .jupyter/, JupyterLab does not ask whether it may fetch its news.
FOLDER ?= notebooks
lab: setup
	@$(QUIETLY) $(BIN)/jupyter trust $(FOLDER)/[0-9][0-9]_*.ipynb
	$(BIN)/jupyter lab --ServerApp.root_dir='$(CURDIR)' --LabApp.app_settings_dir='$(CURDIR)/.jupyter' \
	    --LabApp.default_url=/lab/tree/$(FOLDER)/00_start_here.ipynb

bench: setup
	@$(BIN)/python tests/benchmarks/bench_codec.py
	@$(BIN)/python -m tests.benchmarks.bench $(BENCH)

# --- docs -----------------------------------------------------------------------------------------------------------

new: setup
	@$(BIN)/python docs/new.py '$(KIND)' '$(NAME)' $(TO)

docs: setup
	@PYTHONPATH=. $(BIN)/python docs/collect.py

pictures: setup
	@PYTHONPATH=. $(BIN)/python docs/pictures.py

# What Sphinx warns of (a link that leads nowhere, a page that is in no menu) is an error.
SITE := build/site
site: setup
	@rm -rf $(SITE)
	@PYTHONPATH=. $(BIN)/python -m sphinx -W --keep-going -q -j auto -c docs/site -d build/doctrees -b html . $(SITE)
	@echo "open $(SITE)/index.html"

room: setup
	@PYTHONPATH=. $(BIN)/python docs/room.py build/room
	@echo "written: build/room"

reset:
	@git stash push --message "notebooks before make reset" -- notebooks

# --- check ----------------------------------------------------------------------------------------------------------

# Tests and notebooks share the workers, each of which has a Spark of its own (1 to 2 GB). tests/conftest.py says what --sample takes.
WORKERS ?= logical
PYTEST_ALL := $(BIN)/pytest --numprocesses=$(WORKERS) --maxprocesses=4
PYTEST := $(PYTEST_ALL)
ifeq ($(CI),true)
# Of a test with many cases that needs Spark, each commit plays a third; the weekly job plays all.
CASES ?= 3
PYTEST += --durations=15 --cases=$(CASES)
else
PYTEST += --sample
endif
# Every notebook is run again and its outputs compared with the saved ones. NBVAL=--nbval-lax compares marked cells only.
NBVAL ?= --nbval
NOTEBOOKS := $(NBVAL) --nbval-current-env --nbval-cell-timeout=300 notebooks/[0-9][0-9]_*.ipynb

test: check

check: lint types build/spark.jsa
	$(PYTEST) tests $(NOTEBOOKS)

# Half a minute, after which each of some fifty JVMs starts with half of the processor's time.
build/spark.jsa: .venv/.installed
	@rm -f $@
	@$(QUIETLY) $(BIN)/python -m tests.class_archive

lint: setup
	$(BIN)/ruff check .
	$(BIN)/codespell

types: setup
	$(BIN)/mypy

unit: setup
	$(PYTEST) tests/unit

quick: lint types
	$(PYTEST) --sample @tests/quick.txt

SINCE ?= main
test-changed: lint types
	@touched=$$($(BIN)/python -m tests.changed $(SINCE)); if [ -z "$$touched" ]; then exit 0; fi; set -x; $(PYTEST) --sample $$touched

crash-test: setup
	MINISPARK_CRASH=$(or $(PART),all) $(BIN)/pytest --numprocesses=$(WORKERS) --maxprocesses=4 --durations=0 --timeout=7200 tests/conformance/test_crash_points.py

mutants: setup
	$(BIN)/python -m tests.mutants $(MUTANTS)

package-test: setup
	MINISPARK_PACKAGE=1 $(BIN)/pytest --durations=0 tests/spark/test_installed_package.py

versions: setup
	$(BIN)/python -m tests.versions.matrix $(or $(CASES),1) $(VERSIONS)

record: setup
	MINISPARK_RECORD=yes $(PYTEST_ALL) $(or $(ONLY),tests/conformance tests/spark/test_fates.py)

rewrite-golden: setup
	MINISPARK_GOLDEN=rewrite $(BIN)/pytest -q -k model tests/golden/test_scripts.py
	git --no-pager diff --stat -- tests/golden/scripts

notebooks: setup
	$(PYTEST) tests $(NOTEBOOKS) -k ipynb

# With this variable the kernel does for us what it does for nbval: what the JVM says on stderr is no output of a cell.
rewrite-notebooks: setup
	PYTEST_CURRENT_TEST=rewrite $(BIN)/jupyter nbconvert --to notebook --execute --inplace --ExecutePreprocessor.timeout=300 \
	    --ExecutePreprocessor.record_timing=False $(or $(ONLY),notebooks/[0-9][0-9]_*.ipynb)

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log artifacts
