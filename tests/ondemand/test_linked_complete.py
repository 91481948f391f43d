"""Linked tables completed from given parents, of a small panel: persons with visits.

Frequencies are compared within five standard errors: below 1e-6 a comparison.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastdp
from bench.linked import SCHEMAS, between, panel
from fastdp.errors import DataError, UsageError
from tests.cli.test_app import fastdp_cli

PERSONS = 500


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("linked") / "run"
    how = {"schema": SCHEMAS["panel"], "epsilon": 8.0, "delta": 1e-6, "out": out}
    return fastdp.synthesize(panel(PERSONS, seed=4), seed=4, sample_seed=4, **how)


@pytest.fixture(scope="module")
def made(run):
    return run.complete({"persons": panel(PERSONS, seed=4)["persons"]}, seed=1)


def test_children_of_given_parents_follow_their_parents(run, made):
    """Parents stay as they are; every visit has a parent, none comes before joining, and regions
    and persons differ as in the truth (between persons lies .85 of the variance of a score;
    independent rows would have none)."""
    truth = panel(PERSONS, seed=4)
    assert made["persons"].equals(truth["persons"].cast(made["persons"].schema))
    visits = made["visits"].to_pandas()
    whole = visits.merge(made["persons"].to_pandas(), on="person", validate="many_to_one")
    assert len(whole) == len(visits) and (whole.month >= whole.joined).all()
    assert visits.person.is_monotonic_increasing
    region = truth["persons"]["region"].to_numpy()
    want = np.bincount(region[truth["visits"]["person"].to_numpy()]) / np.bincount(region)
    found = np.bincount(region[visits.person]) / np.bincount(region)
    # 9 to 24 visits a person. Children that know nothing of regions would leave all of it: 1.
    left = np.square(found - want).sum() / np.square(want - want.mean()).sum()
    assert left < 0.5
    assert between(visits.person.to_numpy(), visits.score.to_numpy(float)) > 0.6


def test_a_loaded_run_gives_the_same_tables_for_any_threads(run, made):
    loaded = fastdp.load_run(run.out)
    parents = panel(PERSONS, seed=4)["persons"]
    assert loaded.complete({"persons": parents}, seed=1, threads=1) == made
    assert loaded.complete({"persons": parents}, seed=2)["visits"] != made["visits"]


@pytest.mark.slow
def test_a_single_parent_has_a_level_of_its_own(run):
    """12 persons with 20 visits each, completed one by one: of independent rows, the variance of
    their means would be 1/20 of that of rows, and above .2 with probability 1e-5."""
    means = []
    everything = []
    for seed in range(12):
        asked = {"persons": {"region": [2], "rows of visits": [20]}}
        visits = run.complete(asked, seed=seed)["visits"]
        assert visits.num_rows == 20
        scores = visits["score"].to_numpy().astype(float)
        means.append(np.nanmean(scores))
        everything.append(scores)
    assert np.var(means) > 0.2 * np.nanvar(np.concatenate(everything))


def test_partial_parents_and_partial_children(run):
    parents = {"person": [7, 8, 9], "joined": [19, None, 3], "sex": [1, None, 0]}
    visits = {"person": [9, 7, 7], "score": [3, 55, None], "month": [5, 20, None]}
    made = run.complete({"persons": parents, "visits": visits}, seed=1)
    people = made["persons"].to_pylist()
    rows = made["visits"].to_pylist()
    assert [p["person"] for p in people] == [7, 8, 9] and [p["joined"] for p in people][::2] == [
        19,
        3,
    ]
    assert all(p["region"] is not None and p["joined"] is not None for p in people)
    assert [r["person"] for r in rows] == [9, 7, 7]  # 8 has none: its visits would be listed
    assert [r["score"] for r in rows][:2] == [3, 55] and [r["month"] for r in rows][:2] == [5, 20]
    assert rows[2]["month"] >= 19 and rows[2]["score"] is not None
    many = run.complete({"persons": {"rows of visits": [0] * 50 + [3] * 50}}, seed=1)
    assert many["visits"].num_rows == 150
    assert many["persons"]["person"].to_pylist() == list(range(1, 101))
    none = run.complete({"persons": pa.table({"joined": pa.array([], pa.int64())})})
    assert none["persons"].num_rows == none["visits"].num_rows == 0
    assert none["visits"].column_names == made["visits"].column_names


def test_siblings_of_given_children_are_like_them(run):
    """A visit with a low or a high score is given; the score of another visit follows it."""
    n = 300
    parents = {"person": list(range(n))}
    found = []
    for score in (10, 50):
        visits = pa.table(
            {
                "person": np.repeat(np.arange(n), 8),
                "score": pa.array([score, *[None] * 7] * n, pa.int64()),
            }
        )
        made = run.complete({"persons": parents, "visits": visits}, seed=1)["visits"]
        found.append(pc.mean(made["score"].filter(pa.array([False, *[True] * 7] * n))).as_py())
    assert found[1] - found[0] > 15


@pytest.mark.parametrize(
    ("frames", "kind", "said"),
    [
        (pa.table({"region": [1]}), UsageError, "expected a mapping from table to frame"),
        ({"people": {}}, UsageError, "there is no table 'people'"),
        ({1: {}}, UsageError, "there is no table 1"),
        ({"visits": {"person": [1]}}, UsageError, "give the rows of the parent table 'persons'"),
        ({"persons": {"regio": [1]}}, UsageError, "did you mean 'region'"),
        ({"persons": {"person": [1, 2, 1]}}, DataError, "row 3: its key is that of row 1"),
        ({"persons": {"joined": [99]}}, DataError, "column 'joined', row 1"),
        (
            {"persons": {"person": [1]}, "visits": {"person": [2]}},
            DataError,
            "row 1: no row of 'persons' has its key",
        ),
        (
            {"persons": {"person": [1]}, "visits": {"person": [None]}},
            DataError,
            "row 1: no row of 'persons' has its key",
        ),
        (
            {"persons": {"person": [1]}, "visits": {"person": ["x"]}},
            DataError,
            "its key column 'person' is string",
        ),
        ({"persons": {"person": [1]}, "visits": {"month": [2]}}, UsageError, "'person' is missing"),
        (
            {"persons": {"person": [1], "rows of visits": [1]}, "visits": {"person": [1]}},
            UsageError,
            "leave out the column 'rows of visits'",
        ),
        (
            {"persons": {"person": [1], "joined": [9]}, "visits": {"person": [1], "month": [3]}},
            DataError,
            "row 1: its values break constraint 1",
        ),
    ],
)
def test_what_cannot_be_is_said(run, frames, kind, said):
    with pytest.raises(kind, match=said):
        run.complete(frames, seed=1)


def test_the_command_writes_a_folder_of_tables(run, tmp_path):
    pq.write_table(pa.table({"person": [5, 6], "region": [1, 2]}), tmp_path / "some.parquet")
    given = ["sample", str(run.out), "--given", f"persons={tmp_path / 'some.parquet'}"]
    told = fastdp_cli(*given, "--seed", "1", "--out", "made", cwd=tmp_path)
    assert "2 of persons" in told.stdout
    visits = pq.read_table(tmp_path / "made" / "visits.parquet")
    direct = run.complete({"persons": tmp_path / "some.parquet"}, seed=1)["visits"]
    assert visits.equals(direct)
    again = fastdp_cli(*given, "--out", "made", cwd=tmp_path, check=False)
    assert again.returncode and "exists already" in again.stderr
    rows = ["sample", str(run.out), "--rows", "3", "--out", "x.csv"]
    plain = fastdp_cli(*rows, cwd=tmp_path, check=False)
    assert plain.returncode and "give the parents as TABLE=FILE" in plain.stderr
