# Two commands do all the set-up on a fresh machine: `make verify` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PYTHONS ?= 3.11 3.12 3.13

.PHONY: help verify verify-deep plan test slow interop strangers stores setup prepare fizzbee servers java lint bench docs site dist lock clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 16

verify: prepare  ## the gate: specs, models, proofs, simulation, mutants, campaign; the exit code tells what failed
	@$(BIN)/highwater verify

verify-deep: prepare  ## the same rows with more seeds, all strategies and larger instances
	@$(BIN)/highwater verify --deep

plan: prepare  ## list the checks of the gate that cannot run on this machine, and why; runs none
	@$(BIN)/highwater verify --plan

test: prepare  ## the test suite
	@$(BIN)/python -m pytest -n 3 --dist loadfile --max-worker-restart 0 \
	  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true  # a test that does not end fails, and says where it was

slow: prepare  ## the tests that take long, most of which ask what rows of the gate ask, too
	@$(BIN)/python -m pytest -m slow -n 2

interop: setup servers  ## released SlateDB clients and our code on the same databases, and on a real S3 server (installs the clients, once)
	@$(BIN)/python -m pytest -m interop -n 3 --dist worksteal

strangers: setup servers  ## try released clients of other projects (strangers/) with faults; takes minutes
	@$(BIN)/python strangers/run.py

stores: setup  ## probe S3 servers of other projects (strangers/stores); takes minutes, needs npm and Maven
	@$(BIN)/python strangers/stores/run.py

setup: .venv/ready  ## the virtual environment with pinned packages, once

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'highwater needs Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 3; }
	@echo 'setting up .venv (some minutes, once)'
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

prepare: setup fizzbee servers java  ## everything that the gate and the tests need, built or downloaded once

fizzbee: setup  ## the FizzBee CLI, built once; without it its checks are skipped, and the verdict is incomplete
	@$(PYTHON) tools/fizzbee/build.py || test $$? -eq 3

servers: setup  ## versitygw, a real S3 server, built once; without it its checks and tests are skipped
	@$(PYTHON) tools/s3/build.py || test $$? -eq 3

java: setup  ## a Java runtime for Spark: the machine's, else one is downloaded once; without it its checks are skipped
	@$(BIN)/python tools/java.py > /dev/null || test $$? -eq 3

lint: setup  ## ruff and the type checker
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright

bench: setup  ## the benchmarks, as ratios
	@$(BIN)/python -m bench

docs: setup  ## write the generated parts of docs/ and README.md anew
	@$(BIN)/python -m bench.pages
	@$(BIN)/python -m bench.api

site: setup  ## the pages as a site, with search and live examples: out/site/index.html
	@$(BIN)/python -m bench.site

dist: setup  ## sdist and wheel in out/dist, checked; PYTHONS="3.11 3.12" names the versions of Python, TAG=vX.Y.Z the release
	@$(BIN)/python -m bench.dist $(if $(TAG),--tag '$(TAG)') $(PYTHONS)

lock:  ## requirements.lock from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url -o requirements.lock

clean:  ## everything that was built or cached
	rm -rf .venv .cache out *.egg-info
