"""What comes back: frames of the types that went in, files, and something to look at in a
notebook."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import fastdp
from fastdp.errors import FastdpError, RunError, UsageError
from tests.cli.test_app import fastdp_cli
from tests.run.test_synthesize import go, small_data, small_schema

AWKWARD = {
    "size": {"kind": "categorical", "values": ["s", "m", "l"], "dtype": "enum"},
    "place": {"kind": "categorical", "values": ["here", "there"], "null": "drop"},
    "named": {"kind": "categorical", "values": ["x", "y"], "other": "elsewhere", "null": "drop"},
    "price": {"kind": "numeric", "edges": [0, 10, 100], "dtype": "float64", "null": "drop"},
}


@pytest.fixture(scope="module")
def run():
    """Half of the places and prices lie outside the lists."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "size": pl.Series(rng.choice(["s", "m", "l", None], 4000), dtype=pl.Categorical),
            "place": rng.choice(["here", "there", "nowhere"], 4000),
            "named": rng.choice(["x", "y", "z"], 4000),
            "price": rng.choice([5.0, 50.0, 500.0], 4000),
        }
    )
    return go(frame, schema=fastdp.Schema.from_dict({"columns": AWKWARD}), mechanism="mst", seed=2)


def test_a_run_whose_noise_a_seed_fixed_says_so_when_it_is_shown(run):
    """Printed, it looked like a private run."""
    assert "not private (seed)" in repr(run)


def test_enums_are_dictionaries_of_different_values_and_text_in_csv(run, tmp_path):
    column = run.to_arrow()["size"]
    assert pa.types.is_dictionary(column.type)
    words = column.chunk(0).dictionary.to_pylist()
    assert len(set(words)) == len(words)
    assert set(run.to_pandas()["size"].cat.categories) == {"s", "m", "l"}
    assert run.to_polars()["size"].null_count() > 0
    run.write(tmp_path / "rows.csv")
    assert set(pl.read_csv(tmp_path / "rows.csv")["size"].drop_nulls()) <= {"s", "m", "l"}


def test_a_column_that_drops_nulls_has_none_in_the_output(run):
    rows = run.to_polars()
    for name in ("place", "named", "price"):
        assert rows[name].null_count() == 0, name
    assert set(rows["place"]) == {"here", "there"}
    assert set(rows["named"]) == {"x", "y", "elsewhere"}
    assert rows["price"].min() >= 0 and rows["price"].max() <= 100


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b"])])
def test_polars_categories_can_be_drafted_and_scored(dtype):
    frame = pl.DataFrame({"c": pl.Series(["a", "b", "a", None], dtype=dtype), "n": [1, 2, 3, 4]})
    drafted = fastdp.draft(frame).schema
    assert drafted.columns["c"].values == ("a", "b")
    scores = fastdp.evaluate(frame, frame, metrics="tv1", baselines=())
    assert scores["tv1"]["max"] == 0
    assert fastdp.evaluate(frame, frame, drafted, metrics="tv1", baselines=())["tv1"]["max"] == 0


def test_rows_as_frames_and_files(tmp_path):
    memory = go(small_data(), schema=small_schema(), seed=1)
    kept = go(small_data(), schema=small_schema(), seed=1, out=tmp_path / "run")
    for run in (memory, kept):
        rows = run.to_arrow()
        assert rows.to_pydict() == memory.data.to_pydict()
        assert run.to_polars().shape == run.to_pandas().shape == rows.shape
        for name in ("rows.parquet", "rows.csv", "rows.arrow"):
            run.write(tmp_path / name)
        assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == rows.to_pydict()
        assert pl.read_csv(tmp_path / "rows.csv").shape == rows.shape
        assert pl.read_ipc(tmp_path / "rows.arrow").shape == rows.shape
    with pytest.raises(UsageError, match="parquet"):
        kept.write(tmp_path / "rows.xlsx")


def test_no_rows_are_a_table_and_fewer_than_none_are_refused(run):
    assert run.sample(0).num_rows == 0 and run.sample(0).schema == run.to_arrow().schema
    assert run.sample(1).num_rows == 1
    with pytest.raises(UsageError, match="n must be a whole number >= 0"):
        run.sample(-1)


# The estimator keeps the habits of scikit-learn, and its samples are a run's own rows.


@pytest.fixture(scope="module")
def rows():
    return small_data(3000)


def estimator(**more):
    return fastdp.Synthesizer(
        epsilon=3.0, delta=1e-6, mechanism="mst", schema=small_schema(), **more
    )


@pytest.fixture(scope="module")
def fitted(rows):
    return estimator(random_state=5).fit(rows)


def test_parameters_go_in_and_out_as_scikit_learn_wants():
    made = estimator(clip=3)
    assert made.get_params()["clip"] == 3
    copy = clone(made)
    assert copy is not made and copy.get_params() == made.get_params()
    assert made.set_params(epsilon=2.0) is made and made.epsilon == 2.0
    with pytest.raises(UsageError, match="no parameter 'epsilom'"):
        made.set_params(epsilom=1.0)
    assert "epsilon=2.0" in repr(made) and "threads" not in repr(made)


def test_a_sample_has_the_asked_number_of_rows_and_the_runs_columns(fitted):
    table = fitted.sample(777)
    assert isinstance(table, pa.Table) and table.num_rows == 777
    assert table.schema.equals(fitted.run_.to_arrow().schema, check_metadata=False)
    assert fitted.sample().equals(fitted.run_.to_arrow())


def test_samples_are_fixed_by_the_state_and_differ_from_call_to_call(rows):
    first, second = (estimator(random_state=5).fit(rows) for _ in range(2))
    first.run_ = second.run_  # the noise differs from run to run, the rows of one run do not
    calls = [second.sample(500) for _ in range(2)]
    assert [first.sample(500) for _ in range(2)] == calls
    assert not calls[0].equals(calls[1])


def test_the_kind_of_frame_comes_back_and_what_does_not_fit_is_said(rows):
    assert isinstance(estimator().fit(rows.to_pandas()).sample(5), pd.DataFrame)
    assert isinstance(estimator().fit(pl.from_arrow(rows)).sample(5), pl.DataFrame)

    with pytest.raises(UsageError, match="before sample"):
        estimator().sample(3)
    with pytest.raises(UsageError, match="y must be None"):
        estimator().fit(rows, [1, 2])


# Rows under a condition, by values: every row matches, and they are the model's rows given the
# condition.


COLUMNS = {
    "city": {"kind": "string", "values": ["Rome", "Oslo", "Bern"]},
    "age": {"kind": "integer", "dtype": "int64", "min": 0, "max": 9},
    "fare": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 40]},
}
SCHEMA = fastdp.Schema.from_dict({"columns": COLUMNS})


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(1)
    city = rng.choice(["Rome", "Oslo", "Bern"], 4000, p=[0.7, 0.29, 0.01])
    age = np.where(city == "Oslo", rng.integers(5, 10, 4000), rng.integers(0, 10, 4000))
    table = pa.table({"city": city, "age": age, "fare": rng.uniform(0, 40, 4000)})
    return fastdp.synthesize(table, "mst", 50.0, 1e-6, schema=SCHEMA, seed=1, sample_seed=2)


def test_every_row_drawn_matches_its_condition(rare):
    for where, ok in (
        ({"city": "Bern"}, lambda t: pc.equal(t["city"], "Bern")),
        ({"city": ["Bern", "Oslo"]}, lambda t: pc.not_equal(t["city"], "Rome")),
        (
            {"fare": (12.5, 31)},
            lambda t: pc.and_(pc.greater_equal(t["fare"], 12.5), pc.less(t["fare"], 31)),
        ),
        (
            {"city": "Oslo", "age": 7},
            lambda t: pc.and_(pc.equal(t["city"], "Oslo"), pc.equal(t["age"], 7)),
        ),
    ):
        rows = rare.sample(300, seed=3, where=where)
        assert rows.num_rows == 300 and pc.all(ok(rows)).as_py()
        assert rows.equals(rare.sample(300, seed=3, where=where))


def test_they_are_the_models_rows_given_the_condition(rare):
    """Five standard errors of the two samples' difference: below 1e-6 a cell."""
    n = 20_000
    given = rare.sample(n, seed=5, where={"city": "Oslo"})["age"].to_numpy()
    every = rare.sample(3 * n, seed=6)
    plain = every.filter(pc.equal(every["city"], "Oslo"))["age"].to_numpy()
    for age in range(10):
        p, q = np.mean(given == age), np.mean(plain == age)
        assert abs(p - q) <= 5 * np.sqrt(max(q, 1e-3) * (1 / n + 1 / len(plain)))


def test_what_cannot_be_is_said(rare):
    with pytest.raises(UsageError, match="did you mean 'city'"):
        rare.sample(3, where={"citty": "Rome"})
    with pytest.raises(UsageError, match="column 'age': 'old' is not one of its values"):
        rare.sample(3, where={"age": "old"})
    with pytest.raises(UsageError, match="column 'city': 'Paris' is not one of its values"):
        rare.sample(3, where={"city": "Paris"})
    with pytest.raises(UsageError, match="no row of this run's model matches"):
        rare.sample(3, where={"age": (20, 30)})
    assert rare.sample(0, where={"city": "Rome"}).num_rows == 0


def test_a_folder_gives_the_rows_of_its_run(rare, tmp_path):
    """`fastdp sample` and a loaded run draw from the folder's model."""
    made = fastdp.synthesize(
        rare.data, "mst", 50.0, 1e-6, schema=SCHEMA, seed=1, out=tmp_path / "run"
    )
    stored = fastdp.load_run(made.out)
    where = {"city": "Oslo", "fare": (12.5, None)}
    assert stored.sample(200, seed=1, where=where).equals(made.sample(200, seed=1, where=where))
    assert stored.sample(5000, seed=1).num_rows == 5000  # more than the folder has
    arguments = ["sample", str(made.out), "--rows", "20", "--where", "city = Oslo and fare in 10.."]
    fastdp_cli(*arguments, "--out", "some.csv", cwd=tmp_path)
    some = pacsv.read_csv(tmp_path / "some.csv")
    assert some.num_rows == 20
    assert set(some["city"].to_pylist()) == {"Oslo"}
    assert pc.min(some["fare"]).as_py() >= 10


def test_a_run_without_a_model_gives_some_of_its_rows_each_at_most_once(rare):
    """A condition then selects rows of the run."""
    stored = replace(rare, model=None)
    there = rare.data.filter(pc.equal(rare.data["city"], "Oslo"))
    every = stored.sample(there.num_rows, seed=1, where={"city": "Oslo"})
    keys = [("fare", "ascending"), ("age", "ascending")]
    assert every.sort_by(keys).equals(there.sort_by(keys)) and not every.equals(there)
    with pytest.raises(RunError, match=f"{there.num_rows:,} matching rows"):
        stored.sample(there.num_rows + 1, where={"city": "Oslo"})
    with pytest.raises(UsageError, match="no model of its rows"):
        stored.predict({"city": ["Oslo"]}, "age")


def test_a_run_without_a_model_completes_rows_by_its_own_rows(rare):
    """The conditional distribution is that of the run's rows, within five standard errors; rows that
    none of them agrees with keep what is given; loaded and other threads make no difference."""
    stored = replace(rare, model=None)
    n = 20_000
    made = stored.complete({"city": ["Oslo"] * n}, seed=1)
    own = rare.data.filter(pc.equal(rare.data["city"], "Oslo"))
    assert set(made["city"].to_pylist()) == {"Oslo"} and made.column_names == own.column_names
    for age in set(own["age"].to_pylist()):
        want = pc.mean(pc.equal(own["age"], age).cast("float64")).as_py()
        found = pc.mean(pc.equal(made["age"], age).cast("float64")).as_py()
        assert abs(found - want) <= 5 * np.sqrt(max(want, 1e-3) / n)
    frame = pa.table(
        {"city": ["Oslo", None, "Oslo"], "age": [None, 3, 7], "fare": [1.0, None, 999]}
    )
    whole = stored.complete(frame, seed=2, threads=1).to_pylist()
    assert [r["age"] for r in whole[1:]] == [3, 7] and whole[2]["fare"] == 999
    assert all(v is not None for r in whole for v in r.values())
    assert stored.complete(frame, seed=2).to_pylist() == whole


def asks(folder):
    """Everything that a reader may do with a folder from somebody else."""
    run = fastdp.load_run(folder)
    repr(run)
    run._repr_html_()
    run.answer("count", by="a")
    run.sample(3, seed=1, where={"a": 1})
    run.complete({"b": [1, None]}, seed=1)
    return run.data


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_folder_ends_in_an_error_of_fastdp(folder_of_a_run, tmp_path, seed):
    """One byte, one value or one file of a folder is changed: whatever is asked of it works or
    ends in a FastdpError, which names the folder or the file."""
    place = shutil.copytree(folder_of_a_run, tmp_path / "run")
    rng = np.random.default_rng(seed)
    files = sorted(path for path in place.iterdir() if path.is_file())
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    if file.suffix == ".json" and rng.random() < 0.8:
        content = bytearray(odd_value(rng, json.loads(content)))
    elif rng.random() < 0.3:
        content = content[: rng.integers(len(content))]
    else:
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    file.write_bytes(content)
    try:
        asks(place)
    except FastdpError as error:
        assert str(error)


def odd_value(rng, plain):
    """The document as JSON with one value replaced."""
    places = []

    def walk(value):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(plain)
    holder, key = places[rng.integers(len(places))]
    values = [None, True, -1, 2**70, 1e308, "", [], {}, "x"]
    holder[key] = values[rng.integers(len(values))]
    return json.dumps(plain).encode()


@pytest.fixture(scope="module")
def folder_of_a_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("damaged") / "run"
    table = fastdp.read(small_data(500), small_schema())
    fastdp.synthesize(table, epsilon=2.0, delta=1e-6, mechanism="mst", out=out)
    asks(out)
    return out


def test_arguments_are_not_blamed_on_a_run_in_memory():
    """Only what was read from a folder can be damaged."""
    run = fastdp.synthesize(
        fastdp.read(small_data(200), small_schema()), epsilon=2.0, delta=1e-6, mechanism="mst"
    )
    with pytest.raises(UsageError, match="seed must be"):
        run.sample(3, seed="no number")
