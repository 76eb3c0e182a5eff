# Every target sets up what it needs: on a fresh Debian with python3 and make, `make test` is the first command to type.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
SEEDS  ?= 0:2000
FUZZ_SECONDS ?= 600
MUTATIONS ?= 500
TRACE_SEEDS ?= 0:230
JAVA   := java=default-jre-headless

# Compiled modules are kept: the tests start hundreds of Python processes, and compiling would double what a start takes.
unexport PYTHONDONTWRITEBYTECODE

BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup check unit test pythons wheel-smoke dist damage sim mutants mutation tlc validate-traces validate-mutants fuzz docs bench bench-kafka bench-spark demo apache-kafka spark-kafka interop-java interop-spark s3-server spark-versions spark-connect spark-cluster lock clean

help: ## List the targets
	@echo "make <target>   (PYTHON=$(PYTHON) VENV=$(VENV) JOBS=$(JOBS) SEEDS=$(SEEDS))"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Create .venv with everything in requirements.lock, and insync itself

# The stamp is older than the lock or pyproject.toml after they change: then, and only then, pip runs again.
$(STAMP): requirements.lock pyproject.toml tools/make_venv.sh
	sh tools/make_venv.sh "$(PYTHON)" "$(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

check: setup ## Lint, types, import contracts, purity of the core, rules cited by code and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_purity.py
	$(BIN)/python tools/check_pins.py
	$(BIN)/python tools/check_message_stub.py
	$(BIN)/python tools/check_rules.py
	$(BIN)/python tools/check_cycles.py
	$(BIN)/python tools/check_architecture.py

unit: setup ## The tests that need no other process and no JVM: within a minute
	$(BIN)/pytest -n $(JOBS) -m "unit and not slow"

test: setup check s3-server ## Everything that must hold before a change is pushed: check, then all tests
	sh tools/need_debian.sh kcat $(JAVA)
	$(BIN)/pytest -n $(JOBS)

# moto is a server for the tests and no dependency: what it needs does not fit beside requirements.lock (ADR 32).
S3_SERVER := build/s3-server
s3-server: $(S3_SERVER)/.installed ## Install an S3-compatible server for the tests, in an environment of its own
$(S3_SERVER)/.installed: tools/s3_server/requirements.lock
	sh tools/make_venv.sh "$(PYTHON)" "$(S3_SERVER)"
	$(S3_SERVER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/s3_server/requirements.lock
	touch $@

pythons: ## The unit tests on each of Python 3.11 to 3.14 that is installed, in an environment of its own
	@for version in 3.11 3.12 3.13 3.14; do \
	  if python$$version -c "" 2>/dev/null; then \
	    $(MAKE) --no-print-directory unit PYTHON=python$$version VENV=build/python$$version || exit 1; \
	  else echo "python$$version is not installed"; fi; \
	done

wheel-smoke: setup ## Build the wheel, install it outside the clone, and run a scenario and a cluster with it
	$(BIN)/python tools/wheel_smoke.py

dist: setup ## Build the source distribution and the wheel into dist/
	$(BIN)/python -m hatchling build -d dist

damage: setup ## Every row of the damage table on real nodes (docs/guides/damage.md)
	INSYNC_DAMAGE=full $(BIN)/pytest tests/damage

sim: setup ## Run SEEDS simulated clusters under faults; lists the probes that no seed reached
	$(BIN)/insync sim run --seeds $(SEEDS) --jobs $(JOBS)

mutants: setup ## Remove the safeguards one by one; every removal must be caught by a property
	$(BIN)/insync sim mutants

# Samples: all mutations together would take days. A larger MUTATIONS continues a smaller one.
mutation: setup ## Errors made by rule in MUTATIONS places of the protocol; unit tests, then the simulator, must notice
	$(BIN)/python -m mutation --sample $(MUTATIONS) --jobs $(JOBS)

# TLC and the specification are tools and no dependencies. SPEC=DIR and MODULES=DIR name checkouts of the specification and
# of TLA+'s community modules; without them, both are cloned from GitHub.
TLC := build/tlaplus/libs
tlc: $(TLC)/.complete ## Fetch TLC, the model checker of TLA+, with Maven
$(TLC)/.complete: tools/tlaplus/pom.xml
	mvn -q -B -f tools/tlaplus/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(TLC)"
	touch $@

VALIDATE = $(BIN)/python tools/validate_traces.py --jobs $(JOBS) --seeds $(TRACE_SEEDS) --spec "$(SPEC)" --modules "$(MODULES)"
validate-traces: setup tlc ## Let TLC compare simulated runs with the published specification (docs/protocol/validation.md)
	$(VALIDATE)

validate-mutants: setup tlc ## Remove safeguards one by one; TLC has to reject a trace of each
	$(VALIDATE) --mutants all

# atheris is a tool and no dependency: without an index to fetch it from, the targets are fuzzed without coverage.
fuzz: setup ## Damaged input for FUZZ_SECONDS, into every decoder, log and node; findings go to build/fuzz/findings
	test -d build/fuzz/tools || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/fuzz/tools atheris || true
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

bench: setup ## Measure hot paths, the simulator, and clusters of real processes, with Kafka beside them where its jars are
	$(BIN)/python bench/run.py

bench-kafka: setup apache-kafka ## The cluster of real processes beside Apache Kafka's (docs/guides/benchmarks.md)
	$(BIN)/python bench/run.py cluster

demo: setup ## Three real nodes, a stock client, kill -9 of the leader, a partition moves: what was lost?
	sh tools/need_debian.sh $(JAVA)
	$(BIN)/insync demo --report build/demo.html

# Needs Maven and a JDK. No other target depends on it: where the jars are missing, benchmarks leave Kafka out and say so.
KAFKA_LIBS := build/apache-kafka/libs
apache-kafka: $(KAFKA_LIBS)/.complete ## Fetch Apache Kafka's jars with Maven, for benchmarks beside it and Java clients
$(KAFKA_LIBS)/.complete: tools/apache-kafka/pom.xml
	mvn -q -B -f tools/apache-kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(KAFKA_LIBS)"
	touch $@

# Java's own connector of Spark for Kafka, for those who want to compare with it. Needs Maven and a JDK.
CONNECTOR := build/spark-kafka
spark-kafka: $(CONNECTOR)/.complete ## Fetch Spark's own Kafka connector with Maven
$(CONNECTOR)/.complete: tools/spark-kafka/pom.xml
	mvn -q -B -f tools/spark-kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(CONNECTOR)"
	touch $@

bench-spark: setup ## Spark sources, sink and pipelines, beside Spark's own connector where its jars are (make spark-kafka)
	sh tools/need_debian.sh $(JAVA)
	$(BIN)/python bench/run.py spark

interop-spark: setup apache-kafka spark-kafka ## Spark's own Kafka connector on our brokers, our source and sink on Apache's
	$(BIN)/pytest interop/spark

interop-java: setup apache-kafka ## Apache's Java client and tools on our nodes and files, our commands on Apache's brokers
	$(BIN)/pytest interop/java

# Environments of their own under build/, several hundred megabytes each. Needs a package index.
SPARK_VERSIONS := 4.0.5 4.1.4 4.2.1 4.3.0
spark-versions: setup ## The Spark sources and sink with each of SPARK_VERSIONS
	sh tools/need_debian.sh $(JAVA)
	$(BIN)/python tools/spark_versions.py $(SPARK_VERSIONS)

spark-connect: setup ## The Spark sources and sink in a session of Spark Connect, whose packages are not in the lock
	sh tools/need_debian.sh $(JAVA)
	$(BIN)/python tools/spark_versions.py --connect 4.3.0

# Sphinx is a tool and no dependency; its versions are those of tools/docs/requirements.lock.
DOCS_PACKAGES := build/site/packages
docs: setup ## Build the documentation site into build/site/html (needs a package index)
	test -d $(DOCS_PACKAGES) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  --target $(DOCS_PACKAGES) -r tools/docs/requirements.lock
	PYTHONPATH=$(DOCS_PACKAGES) $(BIN)/python tools/build_site.py

# PySpark's transformWithState needs protobuf; the code that PySpark 4.3 generated for it is for version 6.
spark-cluster: setup ## Drivers and executors of a standalone Spark cluster, killed at every point of a micro-batch
	sh tools/need_debian.sh $(JAVA)
	test -d build/spark-cluster || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/spark-cluster 'protobuf>=6.33.5,<7'
	PYTHONPATH="$(CURDIR)/build/spark-cluster" $(BIN)/pytest -n 0 interop/spark_cluster

# pip-tools lives in build/, outside the environment that it pins.
lock: setup ## Rewrite requirements.lock from pyproject.toml (needs a package index)
	$(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet pip-tools
	$(BIN)/python tools/lock_input.py | CUSTOM_COMPILE_COMMAND="make lock" build/lock/bin/pip-compile --quiet --upgrade \
	  --generate-hashes --strip-extras --no-annotate \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.lock -

clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench fuzz interop -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
