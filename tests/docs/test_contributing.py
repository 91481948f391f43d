"""The everyday commands of CONTRIBUTING.md run, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = "## Everyday commands"
COPIED = ("fastdp", "csrc", "tests", "setup.py", "pyproject.toml", "README.md", "LICENSE")
MINUTES = 5
"""A command that takes longer hangs."""


def commands() -> list[str]:
    """The commands of the section, in order, with continued lines joined."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.split(SECTION)[1].split("\n## ")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", section, re.S | re.M)
    joined = "".join(blocks).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.splitlines()]


def copied(folder: Path) -> None:
    """Put a copy of what the commands need into the folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.o")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


def run(chosen: list[str], folder: Path) -> str:
    """Run commands in the folder; what they printed."""
    printed = ""
    for command in chosen:
        done = subprocess.run(
            command.replace(".venv/bin/python", sys.executable),
            shell=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        printed += done.stdout
    return printed


def builds(command: str) -> bool:
    """Whether a command builds a kernel, or needs one that was built for debugging."""
    return "setup.py" in command or command.startswith("gdb")


@pytest.mark.slow
def test_commands_that_test_and_profile_run(tmp_path):
    copied(tmp_path)
    printed = run([command for command in commands() if not builds(command)], tmp_path)
    passed = {int(number) for number in re.findall(r"\b(\d+) passed", printed)}
    assert 1 in passed and max(passed) > 1, "all tests of a file, and one of them"
    assert "cumtime" in printed and '"seconds"' in printed, "a profile by function, and by step"


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="needs the sources of the kernels")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_commands_that_build_and_debug_a_kernel_run(tmp_path):
    pytest.importorskip("Cython", reason="rebuilding a kernel needs Cython")
    copied(tmp_path)
    chosen = [command for command in commands() if builds(command)]
    if shutil.which("gdb") is None:
        chosen = [command for command in chosen if not command.startswith("gdb")]
    printed = run(chosen, tmp_path)
    assert shutil.which("gdb") is None or "Breakpoint 1, fdp_draw_groups" in printed, (
        "stopped in the kernel"
    )
