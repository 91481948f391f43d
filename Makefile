# Every target makes its own virtual environment and builds what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CORE   := $(wildcard csrc/*.c csrc/*.h fastdp/_core/*.pyx) setup.py pyproject.toml

.PHONY: demo test test-slow bench lint sanitize clean build

build: $(VENV)/.built

$(VENV)/.made: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip "setuptools>=77" wheel "cython>=3.1" "numpy>=2.0"
	touch $@

$(VENV)/.built: $(VENV)/.made $(CORE)
	$(BIN)/python -m pip install -q --no-build-isolation -e ".[test]"
	touch $@

test: build
	$(BIN)/python -m pytest -n 2 -m "not slow" tests

test-slow: build
	$(BIN)/python -m pytest -m slow tests

demo: build
	$(BIN)/python -m bench.demo

bench: build
	$(BIN)/python -m pip install -q -e ".[bench]" --no-build-isolation
	$(BIN)/python -m bench

lint: $(VENV)/.built
	$(BIN)/python -m pip install -q ruff mypy clang-format
	$(BIN)/ruff check fastdp tests bench setup.py
	$(BIN)/ruff format --check fastdp tests bench setup.py
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror csrc/*.c csrc/*.h

sanitize:
	$(MAKE) VENV=.venv-sanitize FASTDP_SANITIZE=1 .venv-sanitize/.built
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	  .venv-sanitize/bin/python -m pytest -m "not slow" tests -k "core or kernel or noise or count or infer or sample"

clean:
	rm -rf build dist *.egg-info $(VENV) .venv-sanitize fastdp/_core/*.so fastdp/_core/*.c demo-out
