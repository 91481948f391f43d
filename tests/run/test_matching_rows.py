"""Rows under a condition, by values: every row matches, and they are the model's rows given the condition."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pytest
from typer.testing import CliRunner

import fastdp
from fastdp.cli.app import app
from fastdp.errors import RunError, UsageError
from fastdp.run import matching_rows

SCHEMA = fastdp.Schema.from_dict(
    {
        "columns": {
            "city": {"kind": "string", "values": ["Rome", "Oslo", "Bern"]},
            "age": {"kind": "integer", "dtype": "int64", "min": 0, "max": 9},
            "fare": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 40]},
        }
    }
)


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(1)
    city = rng.choice(["Rome", "Oslo", "Bern"], 4000, p=[0.7, 0.29, 0.01])
    age = np.where(city == "Oslo", rng.integers(5, 10, 4000), rng.integers(0, 10, 4000))
    table = pa.table({"city": city, "age": age, "fare": rng.uniform(0, 40, 4000)})
    return fastdp.synthesize(table, "mst", 50.0, 1e-6, schema=SCHEMA, seed=1, sample_seed=2)


def test_every_row_matches(run):
    for where, ok in (
        ({"city": "Bern"}, lambda t: pc.equal(t["city"], "Bern")),
        ({"city": ["Bern", "Oslo"]}, lambda t: pc.not_equal(t["city"], "Rome")),
        ({"fare": (12.5, 31)}, lambda t: pc.and_(pc.greater_equal(t["fare"], 12.5), pc.less(t["fare"], 31))),
        ({"city": "Oslo", "age": 7}, lambda t: pc.and_(pc.equal(t["city"], "Oslo"), pc.equal(t["age"], 7))),
    ):
        rows = run.sample(300, seed=3, where=where)
        assert rows.num_rows == 300 and pc.all(ok(rows)).as_py()
        assert rows.equals(run.sample(300, seed=3, where=where))


def test_they_are_the_models_rows_given_the_condition(run):
    """Five standard errors of the two samples' difference: below 1e-6 a cell."""
    n = 20_000
    given = run.sample(n, seed=5, where={"city": "Oslo"})["age"].to_numpy()
    every = run.sample(3 * n, seed=6)
    plain = every.filter(pc.equal(every["city"], "Oslo"))["age"].to_numpy()
    for age in range(10):
        p, q = np.mean(given == age), np.mean(plain == age)
        assert abs(p - q) <= 5 * np.sqrt(max(q, 1e-3) * (1 / n + 1 / len(plain)))


def test_what_cannot_be_is_said(run, monkeypatch):
    with pytest.raises(UsageError, match="did you mean 'city'"):
        run.sample(3, where={"citty": "Rome"})
    with pytest.raises(UsageError, match="column 'age' holds int64"):
        run.sample(3, where={"age": "old"})
    monkeypatch.setattr(matching_rows, "MOST", 1 << 16)
    with pytest.raises(RunError, match="request fewer rows"):
        run.sample(3, where={"city": "Paris"})
    assert run.sample(0, where={"city": "Rome"}).num_rows == 0


def test_a_folder_gives_some_of_its_rows_each_at_most_once(run, tmp_path):
    """`fastdp sample` and a loaded run give rows of the folder that match."""
    made = fastdp.synthesize(run.data, "mst", 50.0, 1e-6, schema=SCHEMA, seed=1, out=tmp_path / "run")
    stored = fastdp.load_run(made.out)
    there = stored.data.filter(pc.equal(stored.data["city"], "Oslo"))
    every = stored.sample(there.num_rows, seed=1, where={"city": "Oslo"})
    keys = [("fare", "ascending"), ("age", "ascending")]
    assert every.sort_by(keys).equals(there.sort_by(keys)) and not every.equals(there)
    with pytest.raises(RunError, match=f"{there.num_rows:,} matching rows"):
        stored.sample(there.num_rows + 1, where={"city": "Oslo"})
    arguments = ["sample", str(made.out), "--rows", "20", "--where", "city = Oslo and fare in 10.."]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "some.csv")])
    assert done.exit_code == 0, done.output
    some = pacsv.read_csv(tmp_path / "some.csv")
    assert (
        some.num_rows == 20
        and set(some["city"].to_pylist()) == {"Oslo"}
        and pc.min(some["fare"]).as_py() >= 10
    )
