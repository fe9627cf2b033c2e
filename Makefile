# Every target works on a fresh clone: it makes what it needs first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests wait as much as they work: for processes to end, for containers to start, for a pod to be really done.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Thousands of processes are started by the tests: what Python has compiled is kept, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: FORCE setup docs release-check dev demo demo-svg screenshots test lint format schemas perf agents cheats controls-coverage controls-trial proof cluster-test harbor trace clean

setup: $(VENV)/.installed

# pip comes last, so a $(VENV) without it is half-made, as Debian leaves one where python3-venv is missing: made anew.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Proctor needs Python 3.11 or newer; say which with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV) || \
	  { rm -rf $(VENV); echo "cannot make $(VENV); on Debian: apt-get install python3-venv, then make again"; exit 2; }

# Packages are installed again when what is asked for has changed, and not when a checkout has touched the file.
$(VENV)/.requirements: FORCE | $(VENV)/bin/pip
	@cmp -s pyproject.toml $@ || cp pyproject.toml $@

FORCE:

# With the grammars: without them, tests in shell, JavaScript, Go, Rust and Java have no controls.
$(VENV)/.installed: $(VENV)/.requirements
	$(PIP) install --editable '.[languages]'
	@touch $@

dev: $(VENV)/.dev

$(VENV)/.dev: $(VENV)/.installed
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group dev
	@touch $@

# The agent of the demo, and of tests that run it: Claude Code, from its Python package.
$(VENV)/.claude: $(VENV)/.installed
	$(PIP) install --editable '.[claude]'
	@touch $@

# make demo              with a scripted model: no key, no daemon, no account
# make demo MODEL=sonnet for real, with ANTHROPIC_API_KEY set
demo: $(VENV)/.claude
	@MODEL='$(MODEL)' demo/run.sh

# The picture in the README, from the demo's own output; and that of mining, from a repository made for it.
demo-svg: $(VENV)/.claude
	$(BIN)/python demo/demo_svg.py
	PYTHONPATH=tests:demo $(BIN)/python demo/mining_picture.py

# The pictures of the viewer, of reports, of terminals and of the site in docs/, from runs made for them. Needs Chromium
# and tmux.
screenshots: dev $(VENV)/.claude
	@PYTHONPATH=tests:demo $(BIN)/python demo/screenshots.py
	$(BIN)/python demo/report_pictures.py
	$(BIN)/python demo/terminal_pictures.py

# make test LANE=containers: only those of one lane (tests/lanes.py)
test: dev
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal $(if $(LANE),--lane $(LANE) -o cache_dir=.pytest_cache/$(LANE)) $(ARGS)

# What takes too long for every run of the tests: all attacks on machines, all honest answers, every prepared machine.
proof: dev
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --long $(ARGS)

# Three nodes on this machine, against a provider that keeps its own books: nodes killed and cut off at 20 moments each,
# the driver at 50, and everything else that docs/cluster.md promises. Takes the better part of an hour, and root.
cluster-test: dev
	$(BIN)/pytest -p no:xdist -s tests/runner/executors/test_ray.py tests/runner/executors/test_ray_nodes.py $(ARGS)
	$(BIN)/pytest -p no:xdist -s --long tests/runner/executors/test_ray.py tests/runner/executors/test_ray_nodes.py $(ARGS)

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The JSON Schemas, the types of the options of the Python API, and the help pages are generated from the records and
# commands and shipped; a test fails when they are stale.
schemas: dev
	$(BIN)/python -m proctor.core.option_types src/proctor/options.py
	$(BIN)/python -m proctor.schema src/proctor/schemas
	$(BIN)/python -m proctor.cli.help_pages

# The documentation as a site, in build/site; a link that leads nowhere fails.
docs: dev
	$(BIN)/python release/site.py

# Wheel and sdist, installed into empty environments on the oldest and the newest Python there is, run core-mini.
release-check: dev
	$(BIN)/python release/check.py

# Every speed target in one table, three rounds, on a machine that does nothing else: at most 15 minutes.
# make perf OLD=path   the sources of another clone in turns with these
# make perf QUICK=1    small sizes, one round, for crashes and not for times: what CI runs
# make perf ALL=1      also what has no row there: reports, the viewer, prefetching, clusters
perf: dev
	@missed=0; $(BIN)/python perf/table.py $(if $(OLD),--old '$(OLD)') $(if $(QUICK),--quick) || missed=1; \
	$(if $(QUICK),,for script in gateway swe_eval $(if $(ALL),$(PERF_OTHERS)); do \
	  echo "== perf/$$script.py"; $(BIN)/python perf/$$script.py || missed=1; done;) exit $$missed

PERF_OTHERS := cluster cluster_simulation environments eval_overhead prefetch report runner sandboxes startup viewer \
  workspaces

# Hostile submissions, graded for real: task, verdict, findings. Fails when one of them wins. ARGS='--controls 0' shows
# which of them only control checks stop.
cheats: dev
	@PYTHONPATH=tests $(BIN)/python -m cheats $(ARGS)

# How many tests of core's Python tasks have an altered version that the oracle fails. Fails when they are too few.
controls-coverage: dev
	@PYTHONPATH=tests $(BIN)/python -m controls_coverage $(ARGS)

controls-trial: controls-coverage

# Every agent, with its real program from its package, against all that can happen to it: a table. Fails when a cell is
# not as it must be. ARGS='codex pi --runner docker --column hostile'
agents: dev
	@PYTHONPATH=tests $(BIN)/python -m agent_matrix $(ARGS)

# Tasks of Harbor's format through Harbor (HARBOR_BIN, or on PATH) and Proctor, with the solution and with nothing: a
# table of rewards. Fails where they differ. ARGS='FOLDER...' for other tasks beside the project's own.
harbor: dev
	@PYTHONPATH=tests $(BIN)/python -m harbor_parity $(ARGS)

# The calls from `bench run` to the agent, and from grading to the test process. Fails when they are too many.
trace: dev
	@PYTHONPATH=tests $(BIN)/python -m call_chains

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
