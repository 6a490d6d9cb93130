# Every target sets up what it needs. PYTHON names the interpreter of the environment: 3.11 or 3.13 to render.
PYTHON ?= $(firstword $(foreach name,python3.11 python3.13 python3,$(shell $(name) --version >/dev/null 2>&1 && echo $(name))))
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JOBS ?= 2

.PHONY: install test lint unit docs bench-render bench-kitti bench-live bench-pairs bench-losses bench-metrics \
	bench-samplers bench-synthetic bench-train gpu-check demo clean-demo

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || { echo "Debian needs: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(INSTALLED)

test: lint unit

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

unit: $(INSTALLED)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations 15

# Fails on whatever warns, and on names and links that lead nowhere.
docs: $(INSTALLED)
	$(BIN)/python -W error -m docs.reference site

bench-render bench-kitti bench-live bench-pairs bench-losses bench-metrics bench-samplers bench-synthetic bench-train: bench-%: $(INSTALLED)
	$(BIN)/python -m benchmarks.bench_$*

# Needs torch, torchvision, numpy, pillow and jaxtyping alone: where they are there already, run the module with that Python instead.
gpu-check: $(INSTALLED)
	$(BIN)/python -m benchmarks.gpu_check

# Everything that it makes is in demo-output; started again, it goes on with what is there.
demo: $(INSTALLED)
	$(BIN)/python examples/demo.py --out demo-output

clean-demo:
	rm -rf demo-output
