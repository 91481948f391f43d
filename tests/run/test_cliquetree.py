"""Whole runs of cliquetree and aim through the session: users, clips, charges, resuming, defaults, limits."""

import math
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import fastdp
from fastdp.cli.app import app
from fastdp.errors import UsageError
from fastdp.privacy import noise

SIZES = {"a": 4, "b": 3, "c": 2, "d": 30}


def schema(user=True, max_rows=8):
    plain = fastdp.Schema.from_domain(SIZES, user="u" if user else None).to_dict()
    if user:
        plain["user"]["max_rows"] = max_rows
    return fastdp.Schema.from_dict(plain)


def data(rows=4000, seed=0, user=True):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    columns = {
        "a": a, "b": (a + (rng.random(rows) < 0.2)) % 3, "c": (a > 1) ^ (rng.random(rows) < 0.1),
        "d": rng.integers(0, 3, rows),
    }  # fmt: skip
    columns = {name: np.asarray(v, np.int64) for name, v in columns.items()}
    return pa.table(({"u": rng.permutation(np.arange(rows) // 4)} if user else {}) | columns)


@pytest.fixture(scope="module")
def table():
    return fastdp.read(data(), schema())


def go(table, mechanism="auto", **options):
    return fastdp.synthesize(table, mechanism, 5.0, 1e-6, seed=3, sample_seed=3, threads=1, **options)


@pytest.mark.parametrize("mechanism", ["auto", "aim", {"mechanism": "cliquetree", "clip": "private"}])
def test_a_run_per_user(table, mechanism, tmp_path):
    run = go(table, mechanism, out=tmp_path / "run")
    assert fastdp.verify(tmp_path / "run").ok
    statement = run.privacy
    assert statement["unit"]["kind"] == "user"
    part = statement["parts"][0]
    if mechanism != "aim":
        looks = [r for r in part["releases"] if r["kind"] == "distances"]
        assert looks and all(r["law"] == "gaussian" for r in looks)
        assert all(math.isclose(r["sensitivity"], part["clip"] * math.sqrt(r["count"])) for r in looks)
    assert abs(fastdp.load_run(tmp_path / "run").data.num_rows - 4000) < 1000


def test_the_sum_of_what_was_drawn_is_what_was_charged(table):
    """Every Gaussian draw counted by its own sigma: together they cost what the statement says, and all of
    the budget."""
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
            drawn += float(np.sum((part["clip"] * grid / sigma) ** 2))
        else:
            reach2 = 1 if release.get("of") == "users" else release.get("cap", part["clip"] ** 2)
            drawn += reach2 * float((grid / sigma[0]) ** 2)
    assert drawn <= charged * (1 + 1e-9) and math.isclose(drawn, charged, rel_tol=1e-6)


def test_one_command_with_defaults(tmp_path):
    """`fastdp synth people.csv -e 1`: schema beside the data, folder beside the data, mechanism auto."""
    pa.csv.write_csv(data(user=False), tmp_path / "people.csv")
    schema(user=False).save(tmp_path / "people.toml")
    result = CliRunner().invoke(app, ["synth", str(tmp_path / "people.csv"), "-e", "1", "--memory", "1G"])
    assert result.exit_code == 0, result.output
    run = fastdp.load_run(tmp_path / "people.synthetic")
    assert run.privacy["mechanism"]["name"] == "cliquetree" and run.privacy["delta"] == 1e-9


def test_a_workload_in_a_recipe(table):
    recipe = {"mechanism": "cliquetree", "workload": [["a", "b"], {"columns": ["a", "c", "d"], "weight": 2}]}
    looks = [r for r in go(table, recipe).privacy["parts"][0]["releases"] if r["kind"] == "distances"]
    assert any("weights" in r for r in looks)
    for field in ({"workload": [["a", "nobody"]]}, {"target": "nobody"}):
        with patch.object(noise, "gaussian", lambda *a, **k: pytest.fail("noise was drawn")):
            with pytest.raises(UsageError, match=next(iter(field))):
                go(table, {"mechanism": "cliquetree", **field})
