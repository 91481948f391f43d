"""The trials at their smallest; `make soak` has them at full size."""

import random

import pytest

from tools.soak import faults, kills, many, world


@pytest.mark.slow
def test_a_few_kills(tmp_path):
    _, problems = kills.trial(tmp_path, 2, random.Random(0))
    assert problems == []


def test_a_second_charge_would_be_seen(tmp_path):
    import fastdp

    world.prepare(tmp_path)
    for folder in ("run", "again"):
        fastdp.synthesize(
            tmp_path / "data.parquet",
            "mst",
            1.0,
            1e-6,
            schema=tmp_path / "schema.json",
            clip=2,
            ledger=tmp_path / "budget.db",
            dataset="soak",
            out=tmp_path / folder,
        )
    assert world.broken_promises(tmp_path) == ["2 runs were charged, not one"]


@pytest.mark.slow
def test_faults_and_many_at_once(tmp_path):
    assert faults.trial(tmp_path)[1] == []
    assert many.parallel(3)[1] == []
