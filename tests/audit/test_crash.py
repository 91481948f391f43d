"""Kill -9 at every point of a run, and many processes against one budget."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tools.soak import faults, kills, many, world

ROOT = Path(__file__).parents[2]


def drive(what, folder):
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit.crash", what, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """In memory where the system has a place for it: what a killed process wrote stays, whether or
    not it was synced."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return drive("kill", tmp_path_factory.mktemp("kill"))
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        return drive("kill", folder)


def test_kill_at_every_point(runs):
    *killed, whole = runs
    assert not whole["died"] and len(killed) >= 16
    assert all(r["died"] for r in killed)
    mu = whole["spent"]
    for run in runs:
        where = f"killed at point {run['at']}"
        assert run["resumed"] in (0, None), where
        # one run in the ledger, charged once, however often it was started
        assert [e["run"] for e in run["entries"]] == ["the run"], where
        assert run["spent"] == pytest.approx(mu, rel=1e-12), where
        assert [s["step"] for s in run["entries"][0]["steps"]] == [0, 1], where
        # whatever was seen before the kill is what is seen after it
        for number in (0, 1):
            seen = {json.dumps(values) for n, values in run["seen"] if n == number}
            assert len(seen) == 1, where
        # nothing was seen that was not charged by then
        if run["died"] and run["seen"]:
            assert run["between"] > 0, where


def test_two_runs_of_the_same_data_differ(runs):
    """The answers above agree because they were stored, not because the noise repeats."""
    first = [json.dumps(r["seen"][0]) for r in runs]
    assert len(set(first)) == len(first)


def test_16_processes_stay_within_one_budget(tmp_path):
    result = drive("race", tmp_path)
    assert set(result["codes"]) == {0}
    assert result["runs"] == 10
    assert result["mu"] <= result["budget"]


# The trials at their smallest; `make soak` has them at full size.


@pytest.mark.slow
def test_runs_that_are_killed_a_few_times_keep_every_promise(tmp_path):
    _, problems = kills.trial(tmp_path, 2, random.Random(0))
    assert problems == []


def test_a_second_charge_would_be_seen(tmp_path):
    import fastdp

    world.prepare(tmp_path)
    options = {
        "schema": tmp_path / "schema.json",
        "ledger": tmp_path / "budget.db",
        "dataset": "soak",
    }
    for folder in ("run", "again"):
        out = tmp_path / folder
        fastdp.synthesize(tmp_path / "data.parquet", "mst", 1.0, 1e-6, clip=2, out=out, **options)
    assert world.broken_promises(tmp_path) == ["2 runs were charged, not one"]


@pytest.mark.slow
def test_faults_and_many_at_once(tmp_path):
    assert faults.trial(tmp_path)[1] == []
    assert many.parallel(3)[1] == []
