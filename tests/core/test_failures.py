"""Every allocation of the compiled core, failing in turn: a MemoryError each time, never a wrong
result or a crash."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloading is done as on Linux")
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.skipif(
    "san" in os.environ.get("LD_PRELOAD", ""), reason="a sanitiser has taken the allocator over"
)
def test_no_failed_allocation_goes_unsaid(tmp_path):
    hook = tmp_path / "failing.so"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", hook, HERE / "failing.c", "-ldl", "-pthread"],
        check=True,
    )
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.failing_cases", hook],
        cwd=HERE.parents[1],
        env={**os.environ, "LD_PRELOAD": str(hook)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    lines = run.stdout.splitlines()
    assert lines[-1] == "all cases hold"
    said = Counter(line.split()[0] for line in lines if line.endswith("MemoryError"))
    # that the hook works at all: kernels that allocate were made to fail
    allocating = "inference counting sparse_counting users sampling scoring reading many_marginals"
    assert set(allocating.split()) <= set(said), said
    assert said["inference"] >= 7 and said["counting"] >= 6 and said["sampling"] >= 5, said


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_harness_for_other_processors_calls_the_kernels_as_they_are():
    root = HERE.parents[1]
    strict = ["-std=gnu11", "-fsyntax-only", "-Werror=implicit-function-declaration"]
    subprocess.run(
        [COMPILER, *strict, "-I", root / "csrc", *(root / "tools/cross").glob("*.c")], check=True
    )
