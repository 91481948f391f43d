"""The public face under type checkers: the example program, strictly."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = "tests/typing/program.py"


@pytest.mark.slow
def test_the_example_program_is_clean_under_mypy_strict():
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", PROGRAM,
        "fastdp/__init__.pyi",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_example_program_is_clean_under_pyright():
    program = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run([program, PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if "rror" in done.stderr and not done.stdout:
        pytest.skip("pyright cannot start here (it needs node)")
    assert done.returncode == 0, done.stdout
