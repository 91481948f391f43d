"""Whole runs of cliquetree through the session: what is drawn, what is charged, workloads."""

import math
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import UsageError
from fastdp.privacy import noise
from tests.builders import schema_with_users

SIZES = {"a": 4, "b": 3, "c": 2, "d": 30}


def data(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    b = (a + (rng.random(rows) < 0.2)) % 3
    c = (a > 1) ^ (rng.random(rows) < 0.1)
    who = rng.permutation(np.arange(rows) // 4)
    return pa.table(
        {"u": who, "a": a, "b": b, "c": c.astype(np.int64), "d": rng.integers(0, 3, rows)}
    )


@pytest.fixture(scope="module")
def table():
    return fastdp.read(data(), schema_with_users(SIZES, max_rows=8))


def go(table, mechanism="auto", **options):
    return fastdp.synthesize(
        table, mechanism, 5.0, 1e-6, seed=3, sample_seed=3, threads=1, **options
    )


def test_the_sum_of_what_was_drawn_is_what_was_charged(table):
    """Every Gaussian draw counted by its own sigma: together they cost what the statement says, and
    all of the budget."""
    costs = []
    real = noise.gaussian

    def counting(sigma, size, **options):
        costs.append((np.broadcast_to(sigma, (int(np.prod(size)),)), size))
        return real(sigma, size, **options)

    with patch.object(noise, "gaussian", counting):
        run = go(table)
    part = run.privacy["parts"][0]
    charged = sum(r["event"]["mu"] ** 2 for r in part["releases"])
    assert math.isclose(charged, part["spent"]["mu"] ** 2, rel_tol=1e-9)
    assert math.isclose(charged, run.privacy["mu"] ** 2, rel_tol=1e-6)
    grid = 2.0**20
    drawn = 0.0
    for release, (sigma, size) in zip(part["releases"], costs, strict=True):
        assert int(np.prod(size)) == release["count"]
        if release["kind"] == "distances":  # each distance may change by the clip
            assert math.isclose(release["sensitivity"], part["clip"] * math.sqrt(release["count"]))
            drawn += float(np.sum((part["clip"] * grid / sigma) ** 2))
        else:
            reach2 = 1 if release.get("of") == "users" else release.get("cap", part["clip"] ** 2)
            drawn += reach2 * float((grid / sigma[0]) ** 2)
    assert drawn <= charged * (1 + 1e-9) and math.isclose(drawn, charged, rel_tol=1e-6)


def test_a_workload_in_a_recipe(table):
    recipe = {
        "mechanism": "cliquetree",
        "workload": [["a", "b"], {"columns": ["a", "c", "d"], "weight": 2}],
    }
    looks = [
        r for r in go(table, recipe).privacy["parts"][0]["releases"] if r["kind"] == "distances"
    ]
    assert any("weights" in r for r in looks)
    for field in ({"workload": [["a", "nobody"]]}, {"target": "nobody"}):
        with patch.object(noise, "gaussian", lambda *a, **k: pytest.fail("noise was drawn")):
            with pytest.raises(UsageError, match=next(iter(field))):
                go(table, {"mechanism": "cliquetree", **field})
