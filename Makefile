# Everything sets itself up: a virtual environment with pinned versions, nothing by hand.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check --quiet

.PHONY: demo test style types suite proofs check bench columns figures promises pairs laws docs pictures reproduce kernel wheels forge agree survey studio clean

$(VENV)/run.stamp: requirements/run.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("sfumato needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install -r requirements/run.txt
	$(BIN)/python $(PIP) install --no-deps --editable .
	touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp requirements/test.txt
	$(BIN)/python $(PIP) install -r requirements/test.txt
	touch $@

demo: $(VENV)/run.stamp  ## the whole road on real counts; leaves files to look at in demo/
	$(BIN)/sfumato demo --out demo --force

style: $(VENV)/test.stamp
	$(BIN)/ruff check src tests benchmarks docs wheels

types: $(VENV)/test.stamp
	$(BIN)/mypy

suite: $(VENV)/test.stamp
	$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup

check: style types

test: style  ## what CI runs; types are checked while the tests run, which alone leave a core idle at times
	$(MAKE) --no-print-directory --jobs 2 types suite

proofs: $(VENV)/test.stamp  ## the tests that take minutes: laws of whole searches
	$(BIN)/python -m pytest --numprocesses 2 -m long

$(BENCH_VENV)/stamp: requirements/run.txt requirements/bench.txt pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python $(PIP) install -r requirements/bench.txt
	$(BENCH_VENV)/bin/python $(PIP) install --no-deps --editable .
	touch $@

bench: $(BENCH_VENV)/stamp  ## times as ratios, with peers, into docs/benchmarks.md
	$(BENCH_VENV)/bin/python benchmarks/run.py
	$(BENCH_VENV)/bin/python docs/pictures/draw.py benchmarks columns

columns: $(BENCH_VENV)/stamp  ## many columns beside other protocols, into docs/columns-figures.md: a quarter hour; goes on where it stopped; BEFORE=…/src
	BEFORE=$(BEFORE) PIECES=build/columns nice $(BENCH_VENV)/bin/python benchmarks/columns_page.py

figures: $(VENV)/test.stamp  ## the default on twenty tables, and how often an analyst's intervals hold: half an hour
	$(BIN)/python benchmarks/twenty.py --out docs/twenty.md
	$(BIN)/python benchmarks/analysis.py --runs 500 --out docs/coverage.md

promises: $(VENV)/test.stamp  ## what two promises cost, into docs/two-promises.md: hours
	for part in caps anywhere even twice noise; do $(BIN)/python benchmarks/promises.py $$part --write || exit 1; done
	$(BIN)/python benchmarks/covering.py 1000 --write

pairs: $(VENV)/test.stamp  ## value and bound of every pair of Adult columns, into docs/engine.md: an hour; goes on where it stopped
	$(BIN)/python benchmarks/engine.py pairs

laws: $(VENV)/test.stamp  ## the laws of a correct search over two thousand random tables: an hour; COUNT=40 for a look
	SFUMATO_PATIENCE=$(or $(SFUMATO_PATIENCE),0.1) $(BIN)/python benchmarks/engine.py laws $(or $(COUNT),2000)

$(VENV)/docs.stamp: $(VENV)/test.stamp requirements/docs.txt
	$(BIN)/python $(PIP) install -r requirements/docs.txt
	touch $@

docs: $(VENV)/docs.stamp  ## the documentation as a site that opens from its folder: site/index.html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs site
	$(BIN)/python -m tests.site_pages site

pictures: $(VENV)/test.stamp  ## the pictures of the pages, drawn anew from the library
	$(BIN)/python docs/pictures/draw.py

kernel: $(VENV)/test.stamp  ## the verifier alone, as a wheel of its own in dist/
	rm -rf build/kernel && mkdir -p build/kernel && cp -r src/sfumato_kernel LICENSE build/kernel/
	cp kernel/pyproject.toml kernel/README.md build/kernel/
	$(BIN)/python $(PIP) wheel --no-deps --wheel-dir dist build/kernel

PYTHONS ?=
wheels:  ## wheels by role and the sdist into dist/, each tried in an empty environment, with sizes; PYTHONS="python3.12 …" for others
	$(PYTHON) wheels/build.py $(PYTHONS)

FORGED ?= 1000000
forge: $(VENV)/test.stamp  ## wrong files against the verifier, a million of them unless FORGED says otherwise
	$(BIN)/python benchmarks/verifier.py forge $(FORGED)

survey: $(VENV)/test.stamp  ## survey pages and their intake at full size: vectors, answers, rates, 200 kill -9, 5,000 people; a quarter hour
	$(BIN)/python benchmarks/survey.py

studio: $(VENV)/test.stamp  ## the studio in Chromium on Adult and a million rows: first design, slider, memory, the whole road
	$(BIN)/python benchmarks/run.py studio

AGREED ?= 100000
agree: $(VENV)/test.stamp  ## random laws under every notion and set through the kernel and the fast proofs
	$(BIN)/python benchmarks/verifier.py agree $(AGREED)

reproduce: $(VENV)/test.stamp  ## figures and tables of the papers, quick versions, into docs/
	$(BIN)/sfumato reproduce all --out docs/figures --page docs/reproduced.md

clean:
	rm -rf $(VENV) $(BENCH_VENV) demo site jupyter_execute .mypy_cache .ruff_cache .pytest_cache .hypothesis
