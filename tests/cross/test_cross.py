"""The harness on this machine: every case agrees, and a result that differs is noticed."""

import platform
import shutil
import subprocess

import numpy as np
import pytest

from . import vectors
from .__main__ import MACHINES, build, flags

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() not in MACHINES, reason="the vectors are for ARM64 and x86-64"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    program = build(platform.machine(), tmp_path_factory.mktemp("harness"))

    def run(path):
        done = subprocess.run([program, path], capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


def test_every_case_agrees(harness, tmp_path):
    count = vectors.write(tmp_path / "vectors.bin")
    code, printed = harness(tmp_path / "vectors.bin")
    assert code == 0 and f"{count} cases on 1 and 3 threads, 0 differ" in printed


@pytest.mark.parametrize("name, at", [("gaussian", -1), ("ids_group", -1), ("score_distance", -1)])
def test_a_result_that_differs_is_noticed(harness, tmp_path, name, at):
    """One bit of an integer, or a float off by more than its tolerance."""
    out = vectors.File()
    vectors.noise_cases(out, np.random.default_rng(1))
    vectors.public_cases(out, np.random.default_rng(1))
    case = bytearray(out.cases[name][0])
    case[at] ^= 1 if name != "score_distance" else 64
    (tmp_path / "vectors.bin").write_bytes(bytes(case))
    code, printed = harness(tmp_path / "vectors.bin")
    assert code == 1 and "DIFFER" in printed


@pytest.mark.parametrize("content", [b"", b"nothing".ljust(32, b"\0") + b"\0" * 4, b"cap".ljust(32, b"\0")])
def test_a_file_without_cases_or_with_strange_ones_is_no_success(harness, tmp_path, content):
    (tmp_path / "vectors.bin").write_bytes(content)
    assert harness(tmp_path / "vectors.bin")[0] != 0


def test_the_flags_are_those_of_the_build():
    assert "-std=gnu11" in flags() and "-O3" in flags()
