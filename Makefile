# Every target makes its own virtual environment and builds what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(abspath $(VENV)/bin)
unexport PYTHONDONTWRITEBYTECODE # else every process that a test starts would compile the packages anew
UNITS  := $(filter-out csrc/noise_table.h,$(wildcard csrc/*.c csrc/*.h)) # the table is made by a program
CORE   := $(wildcard csrc/*.c csrc/*.h fastdp/_core/*.pyx fastdp/_core/*.pxd) setup.py pyproject.toml

.PHONY: build demo test unit test-all test-slow test-coverage test-spark test-sql test-arm test-cross cross-tools mutants membership bench lint lint-package lint-interface format sanitize sanitize-threads fuzz soak dist try-wheel try-wheel-arm test-wheel docs notebooks clean

build: $(VENV)/.built

# The versions of every package: those of the lock, so that pip need not search. LOCK=/dev/null takes the newest ones.
LOCK ?= requirements-dev.lock
PIP  := $(BIN)/python -m pip install -q --disable-pip-version-check --no-warn-conflicts -c $(VENV)/versions.txt

# Python brings a wheel of pip. It is unpacked: `python -m venv` would install and compile it, and takes ten seconds. It then
# installs the pip of the lock, which goes through the registry's pages in two thirds of the time of Python 3.11's.
UNPACK_PIP = import ensurepip, pathlib, sysconfig, zipfile; \
  (wheel,) = (pathlib.Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"); \
  zipfile.ZipFile(wheel).extractall(sysconfig.get_path("purelib"))

$(VENV)/.made: $(LOCK)
	@echo "fastdp: making the environment $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	@test -d $(VENV)/lib/python*/site-packages/pip || $(BIN)/python -c '$(UNPACK_PIP)' || $(BIN)/python -m ensurepip
	@sed -n 's/^\([A-Za-z0-9._-]*==[^ ]*\).*/\1/p' $(LOCK) > $(VENV)/versions.txt
	@$(PIP) --no-compile pip || echo "fastdp: pip stays at the version that Python brings; the locked one takes less time"
	@$(PIP) --no-compile setuptools cython
	@touch $@

# uv installs in a third of pip's processor time. It knows nothing of pip's settings: where pip has an index of its own, a proxy or
# none at all, and where uv fails for any reason, pip installs.
QUICK = ! $(BIN)/python -m pip config list | grep -q -E "\.(index-url|no-index|proxy)=" && \
  { $(PIP) --no-compile uv && $(BIN)/uv pip install -q --python $(BIN)/python -c $(VENV)/versions.txt -r $(VENV)/needs.txt; } 2> /dev/null

# The package alone, with what it needs to run: all that the demo takes. The core is compiled while the packages are downloaded.
# Their bytecode is made where they are first imported: most of it never is. WITH="lint test": these extras in the same go.
WITH  ?=
NEEDS = $(BIN)/python -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  extras = [p["optional-dependencies"][name] for name in sys.argv[1:]]; \
  print(*p["dependencies"], *[need for extra in extras for need in extra], sep="\n")'
$(VENV)/.built: $(VENV)/.made $(CORE)
	@echo "fastdp: installing packages and compiling the core; the first time takes one to three minutes"
	@$(MAKE) --no-print-directory -j2 $(VENV)/.needs $(VENV)/.core
	@touch $@
$(VENV)/.needs: $(VENV)/.made pyproject.toml
	@$(NEEDS) $(WITH) > $(VENV)/needs.txt
	@$(QUICK) || $(PIP) --no-compile -r $(VENV)/needs.txt
	@touch $@ $(foreach extra,$(WITH),$(VENV)/.has-$(extra))
	@echo "fastdp: packages are installed"
$(VENV)/.core: $(VENV)/.made $(CORE)
	@PYTHONWARNINGS=ignore $(PIP) --no-build-isolation --no-deps -e .  # setuptools warns of every editable installation
	@touch $@
	@echo "fastdp: the core is compiled"

# What a target needs beyond that: an extra of pyproject.toml.
$(VENV)/.has-%: pyproject.toml $(LOCK) | $(VENV)/.built
	$(PIP) --no-compile "fastdp[$*]"
	touch $@

# What CI runs: lint, format, type checkers and tests, at a time where processors allow. What lint finds is printed at once; the
# tests go on. mypy writes no cache on a fresh machine: to write it takes an eighth of its time. `make lint` makes one.
test:
	$(MAKE) --no-print-directory WITH="lint test" build
	$(MAKE) --no-print-directory -j3 MYPY="$(if $(wildcard .mypy_cache),,--cache-dir=/dev/null)" lint-package lint-interface unit

# The tests alone. Tests of an extra that is not installed are skipped, and listed with the reason; `make test-all` installs
# every extra. Spark has targets of its own: a process holds sessions of one kind. pytest rewrites no asserts, which takes each
# process as long as a folder of tests; what fails is run again with the values in its asserts. Bytecode is made once: both
# processes would make all of it. Files of tests lie in memory where there are two gigabytes of it: a ledger waits for the disk
# at every entry. Linear algebra has one thread in each process: two of them on two cores would wait for each other.
# Each process takes a half of the tests in their order, and the first to end takes over from the other: tests of a module
# stay together, and what they share is made once.
MEMORY := $(shell test -w /dev/shm && ! grep -q ' /dev/shm .*noexec' /proc/mounts && df -Pm /dev/shm | awk 'NR == 2 && $$4 >= 2000 {print "/dev/shm"}')
HEAVY  := hypothesis, hypothesis.extra.numpy, numpy, pandas, polars, pyarrow.parquet, scipy.stats, sklearn.ensemble
unit: build $(VENV)/.has-test
	$(BIN)/python -c "import $(HEAVY)"
	$(BIN)/python -m compileall -q -j 2 fastdp tests tools bench
	scratch=$$(TMPDIR=$(or $(MEMORY),$${TMPDIR:-/tmp}) mktemp -d -t fastdp-XXXXXX) && trap "rm -rf $$scratch" EXIT && \
	  TMPDIR=$$scratch OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -rs --assert=plain -m "not slow" --ignore=tests/spark tests || \
	  { $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -m "not slow" --ignore=tests/spark tests; exit 1; }

test-all: build $(VENV)/.has-test-all
	FASTDP_TEST_SQL=$$(ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 && echo 1) \
	  $(BIN)/python -m pytest -n 2 -rs -m "not slow" --ignore=tests/spark tests
	if command -v java > /dev/null; then $(MAKE) test-spark; else echo "no Java: the tests of Spark were left out"; fi

test-slow: build $(VENV)/.has-test-all
	$(BIN)/python -m pytest -n 2 --dist load --maxschedchunk 1 -rs -m slow tests

# Whole runs on tables with known truth: do intervals of `run.answer` cover? (part of test-slow; the figures: python -m bench.coverage)
test-coverage: build $(VENV)/.has-test
	$(BIN)/python -m pytest -rs tests/answers/test_coverage.py

# Each kind of Spark session in a process of its own: classic, Connect, and a cluster of two executors on this machine.
test-spark: build $(VENV)/.has-test $(VENV)/.has-spark
	@command -v java > /dev/null || apt-get install -y -q openjdk-17-jre-headless || \
	  { echo "test-spark: Spark needs Java 17, and it could not be installed (Debian: openjdk-17-jre-headless)"; exit 1; }
	for kind in "local[2,4]" connect "local-cluster[2,1,1024]"; do \
	  FASTDP_TEST_SPARK="$$kind" $(BIN)/python -m pytest tests/spark || exit 1; done

# A PostgreSQL server of the tests' own, in a temporary folder; it does not run as root.
test-sql: build $(VENV)/.has-test $(VENV)/.has-test-sql
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null || apt-get install -y -q postgresql || \
	  { echo "test-sql: there is no PostgreSQL server, and it could not be installed (Debian: postgresql)"; exit 1; }
	FASTDP_TEST_SQL=1 $(BIN)/python -m pytest tests/tables/test_sql.py tests/tables/test_postgresql.py tests/engines/test_sql.py tests/engines/test_sql_postgres.py

# Property tests and damaged input with fresh seeds: make fuzz MINUTES=60 SEED=3
MINUTES ?= 5
fuzz: build $(VENV)/.has-test
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) --seed $(SEED)

# Whole runs killed, run by the hundred, at once, and on machines that give out: make soak KILLS=20 RUNS=20
KILLS ?= 200
RUNS  ?= 100
soak: build $(VENV)/.has-test
	$(BIN)/python -m tools.soak --kills $(KILLS) --runs $(RUNS)

# The kernels' vectors on ARM64, and on the processor that this machine is not, under qemu-user (tools/cross).
OTHER := $(if $(filter aarch64,$(shell uname -m)),x86_64,aarch64)
test-arm: build $(VENV)/.has-test
	test "$$(uname -m)" = aarch64 || $(MAKE) cross-tools
	$(BIN)/python -m tools.cross aarch64
test-cross: build $(VENV)/.has-test cross-tools
	$(BIN)/python -m tools.cross $(OTHER)
cross-tools:
	@{ command -v qemu-$(OTHER) && command -v $(OTHER)-linux-gnu-gcc && command -v musl-gcc; } > /dev/null || \
	  apt-get install -y -q qemu-user gcc-$(subst _,-,$(OTHER))-linux-gnu musl-tools || \
	  { echo "no cross compiler or qemu, and they could not be installed (Debian: qemu-user," \
	    "gcc-$(subst _,-,$(OTHER))-linux-gnu, musl-tools)"; exit 1; }

# Small faults, one at a time, against the tests that reach them: make mutants SEED=7 COUNT=20 JOBS=2
SEED  ?= 1
COUNT ?= 100
JOBS  ?= 1
mutants: build $(VENV)/.has-test $(VENV)/.has-mutants
	$(BIN)/python -m tools.mutants --seed $(SEED) --count $(COUNT) --jobs $(JOBS) --work build/mutants

# Whether a user of 200 rows was in the data, from what runs release, every mechanism: make membership ATTACKS=20000 PIPELINES=300
ATTACKS   ?= 20000
PIPELINES ?= 300
membership: build $(VENV)/.has-test
	$(BIN)/python -m tools.membership --runs $(ATTACKS) --pipelines $(PIPELINES)

demo: build
	$(BIN)/python -m bench.demo

# What README quotes: the benches at full size with their peers (hours; kept in bench/results), processor times kept by date and
# compared with earlier ones of this machine, then README's table and plot from those files. make bench QUICK=1: in small, minutes.
bench: build $(VENV)/.has-bench
	$(BIN)/python -m bench --quoted $(if $(QUICK),,--full)
	$(BIN)/python -m bench.history $(if $(QUICK),--quick)
	$(BIN)/python -m bench.readme

# Both type checkers at a time: mypy over the package, pyright over a program of a user.
lint: build $(VENV)/.has-lint
	$(MAKE) --no-print-directory -j2 lint-package lint-interface

lint-package:
	$(BIN)/ruff check fastdp tests tools bench setup.py
	$(BIN)/ruff format --check fastdp tests tools bench setup.py
	$(BIN)/mypy $(MYPY)

lint-interface:
	$(BIN)/clang-format --dry-run --Werror $(UNITS)
	$(BIN)/pyright tests/typing/program.py

format: build $(VENV)/.has-lint
	$(BIN)/ruff check --fix fastdp tests tools bench setup.py
	$(BIN)/ruff format fastdp tests tools bench setup.py
	$(BIN)/clang-format -i $(UNITS)

# The kernels under the address and undefined-behaviour sanitisers, built in a copy so that the core in use stays as it is.
# libstdc++ is loaded early too: without it the sanitiser cannot follow the C++ exceptions of pyarrow.
KERNEL_TESTS := tests/core tests/tables tests/codec tests/engines tests/public \
  tests/model tests/ondemand tests/estimate tests/privacy/test_noise_kernel.py tests/metrics/test_metrics.py tests/metrics/challenges
sanitize: build $(VENV)/.has-test
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r fastdp csrc tests tools bench setup.py pyproject.toml README.md LICENSE build/sanitize
	rm -f build/sanitize/fastdp/_core/*.so build/sanitize/fastdp/_core/*.c
	cd build/sanitize && FASTDP_SANITIZE=1 $(BIN)/python setup.py -q build_ext --inplace
	cd build/sanitize && ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	  $(BIN)/python -m pytest -m "not slow" $(KERNEL_TESTS)

# The same for data races between the threads of a team. Only code built for it is watched (races within Arrow and Polars are left out,
# and the allocator that Polars brings starts no thread). A
# child of fork may make no threads under this sanitiser, and addresses must not be random.
THREAD_TESTS := tests/core/test_team.py tests/model/test_infer.py tests/estimate/test_move.py tests/model/test_sample.py tests/engines
sanitize-threads: build $(VENV)/.has-test
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r fastdp csrc tests tools bench setup.py pyproject.toml README.md LICENSE build/sanitize
	rm -f build/sanitize/fastdp/_core/*.so build/sanitize/fastdp/_core/*.c
	cd build/sanitize && FASTDP_SANITIZE=thread $(BIN)/python setup.py -q build_ext --inplace
	cd build/sanitize && _RJEM_MALLOC_CONF=background_thread:false TSAN_OPTIONS=halt_on_error=1:report_signal_unsafe=0:detect_deadlocks=0:suppressions=tests/core/threads.supp LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" \
	  setarch -R $(BIN)/python -m pytest -m "not slow" -k "not fork and not a_fit_is" $(THREAD_TESTS)

# Source archive, one wheel per platform whose compiler is here, and the list of parts (CycloneDX). HERE=1: this machine's wheel only.
dist: build $(VENV)/.has-dist
	$(BIN)/python packaging/wheels.py --to dist $(if $(HERE),--here)

# The wheel of this machine under every Python that is installed, with no compiler on the path: doctor, demo, equal digests.
try-wheel: $(if $(wildcard dist/*.whl),,dist)
	$(BIN)/python packaging/try_wheel.py dist/*.whl

# The wheel for ARM64 under qemu-user, with Debian's Python: doctor, and the rows of this machine.
try-wheel-arm: build $(if $(wildcard dist/*_aarch64.whl),,dist) cross-tools
	$(BIN)/python -m tools.cross.wheel build/arm dist/*_aarch64.whl

# The wheel in an environment of its own, with no compiler on the path, under the archive's tests.
# Left out: what reads the sources themselves.
SOURCE_TESTS := tests/test_imports.py tests/core tests/bench
SOURCE_TEST  := tests/privacy/test_noise_kernel.py::test_tables_are_those_of_high_precision_arithmetic
test-wheel: dist
	rm -rf build/wheel && mkdir -p build/wheel/path && $(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install -q "$$(ls dist/*manylinux*_$$(uname -m).whl)[test]"
	tar -xzf dist/fastdp-*.tar.gz -C build/wheel && rm -rf build/wheel/fastdp-*/fastdp build/wheel/fastdp-*/csrc
	for tool in git sh env uname sed; do ln -sf "$$(command -v $$tool)" build/wheel/path/; done
	cd build/wheel/fastdp-* && PATH="$(abspath build/wheel/venv/bin):$(abspath build/wheel/path)" \
	  python -m pytest -n 2 -m "not slow" tests $(addprefix --ignore=,$(SOURCE_TESTS)) --deselect $(SOURCE_TEST)

# The documents as a site, in build/site; a link that leads nowhere is an error.
docs: build $(VENV)/.has-docs
	$(BIN)/python packaging/site.py --to build

# Runs the notebooks of examples/ and keeps what they print and draw.
notebooks: build $(VENV)/.has-docs
	$(BIN)/python examples/notebooks.py

clean:
	rm -rf build dist *.egg-info $(VENV) .hypothesis .mypy_cache .ruff_cache fastdp/_core/*.so fastdp/_core/*.c demo-out bench/out
	find fastdp tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
