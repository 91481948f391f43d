"""`fastdp.evaluate`: sources, defaults, baselines, several tables, bad input, lazy imports."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp import simulate
from fastdp.errors import DataError, UsageError
from fastdp.metrics.inputs import codes_of_pair


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    return simulate.taxi(4000, seed=1), simulate.taxi(3000, seed=2)


@pytest.mark.slow
def test_defaults_for_taxi_columns(tables):
    scores = fastdp.evaluate(*tables)
    assert scores["private"] is False
    assert scores["rows"] == {"truth": 4000, "synthetic": 3000}
    assert 0 < scores["deid2"]["overall"] < 1000 and 0 < scores["kmarginal"]["score"] < 1000
    assert set(scores["baselines"]) == {"1 % sample", "10 % sample"}
    ten = scores["baselines"]["10 % sample"]
    one = scores["baselines"]["1 % sample"]
    assert ten["kmarginal"]["score"] > one["kmarginal"]["score"]
    assert ten["deid2"]["overall"] > one["deid2"]["overall"]
    assert "taxi_id" not in scores["columns"]
    json.dumps(scores)


@pytest.mark.slow
def test_every_source_gives_the_same(tables, tmp_path):
    truth, synthetic = (t.slice(0, 600) for t in tables)
    pq.write_table(truth, tmp_path / "t.parquet")
    feather.write_feather(truth, tmp_path / "t.arrow", compression="uncompressed")
    pl.from_arrow(truth).write_csv(tmp_path / "t.csv")
    # A first column without a name, which counts nothing.
    truth.to_pandas().to_csv(tmp_path / "index.csv")
    frames = [
        truth,
        pl.from_arrow(truth),
        pl.from_arrow(truth).lazy(),
        truth.to_pandas(),
        truth.to_reader(),
    ]
    files = [
        str(tmp_path / "t.parquet"),
        *(tmp_path / name for name in ("t.arrow", "t.csv", "index.csv")),
    ]
    sources = [*frames, *files, {name: truth[name].to_numpy() for name in truth.column_names}]
    scores = [
        fastdp.evaluate(s, synthetic, metrics=["deid2", "kmarginal"], baselines=()) for s in sources
    ]
    for other in scores[1:]:
        assert other["deid2"] == scores[0]["deid2"] and other["rows"] == scores[0]["rows"]
        assert other["kmarginal"]["score"] == pytest.approx(scores[0]["kmarginal"]["score"])


def test_metrics_by_name_group_and_all(tables):
    scores = fastdp.evaluate(*tables, metrics=["pairwise", "coverage"], baselines=())
    assert {"tv1", "tv2", "correlation", "association", "coverage"} <= set(scores)
    assert "kmarginal" not in scores and "baselines" not in scores
    pytest.importorskip("sklearn")
    small = [t.slice(0, 400) for t in tables]
    everything = fastdp.evaluate(*small, metrics="all", marginals=5, baselines=(0.5,))
    assert {"deid2", "nist2018", "kmarginal", "tv2", "utility"} <= set(everything)
    assert "sprint1" not in everything
    assert list(everything["baselines"]) == ["50 % sample"]


def test_a_function_is_a_metric_of_its_name(tables, tmp_path):
    """It gets the codes that the built-in metrics get: of one column, half the sum of differences
    is tv1."""

    def own(pair):
        counts = [
            np.bincount(side["payment_type"], minlength=pair.sizes["payment_type"])
            for side in (pair.truth, pair.synthetic)
        ]
        shares = [c / c.sum() for c in counts]
        return float(np.abs(shares[0] - shares[1]).sum() / 2)

    page = tmp_path / "page.html"
    scores = fastdp.evaluate(*tables, metrics=["tv1", own], report=page)
    assert scores["own"] == pytest.approx(scores["tv1"]["by_column"]["payment_type"], abs=1e-12)
    assert "own" in page.read_text("utf-8")
    assert set(fastdp.evaluate(*tables, metrics=own, baselines=())["seconds"]) == {
        "own",
        "baselines",
    }
    own.__name__ = "rows"
    for nameless in (own, lambda pair: 0.0):
        with pytest.raises(UsageError, match="is taken"):
            fastdp.evaluate(*tables, metrics=nameless)


def test_several_tables_schemas_and_coded_tables(tables):
    truth, synthetic = tables
    scores = fastdp.evaluate(
        truth, {"same": truth, "other": synthetic}, metrics="deid2", baselines=()
    )
    assert scores["same"]["deid2"]["overall"] == pytest.approx(1000.0)
    assert scores["other"]["deid2"]["overall"] < 1000.0
    domain = {"a": 3, "b": 4}
    schema = fastdp.Schema.from_domain(domain)
    rng = np.random.default_rng(0)
    truth, synthetic = ({n: rng.integers(0, k, 500) for n, k in domain.items()} for _ in range(2))
    by_schema = fastdp.evaluate(pa.table(truth), pa.table(synthetic), schema, k=2)
    coded = [fastdp.Table.from_codes(schema, t, public=True) for t in (truth, synthetic)]
    assert fastdp.evaluate(*coded, k=2)["kmarginal"] == by_schema["kmarginal"]
    without = fastdp.evaluate(pa.table(truth), pa.table(synthetic), k=2)
    assert without["kmarginal"]["score"] == pytest.approx(by_schema["kmarginal"]["score"])
    assert by_schema["columns"]["a"]["encoding"] == "schema"


def test_bad_input_is_named(tables, tmp_path):
    truth, _ = tables
    with pytest.raises(UsageError, match="no metric 'deid3'"):
        fastdp.evaluate(*tables, metrics="deid3")
    with pytest.raises(UsageError, match="at least one"):
        fastdp.evaluate(*tables, metrics=[])
    with pytest.raises(DataError, match="no file"):
        fastdp.evaluate(truth, tmp_path / "none.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="damaged"):
        fastdp.evaluate(truth, tmp_path / "broken.parquet")
    with pytest.raises(UsageError, match="synthetic"):
        fastdp.evaluate(truth, 7)
    with pytest.raises(DataError, match="no common column"):
        fastdp.evaluate(truth, pd.DataFrame({"other": [1]}))
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="twice"):
        fastdp.evaluate(twice, twice)


def test_mixed_types_nulls_and_nan_have_codes():
    a = pa.chunked_array([pa.array(["x", None, "y"])])
    b = pa.chunked_array([pa.array(["z", "x"]), pa.array([None], pa.string())])
    first, second, values = codes_of_pair(a, b)
    assert values.to_pylist() == ["x", "y", "z", None]
    assert first.tolist() == [0, 3, 1] and second.tolist() == [2, 0, 3]
    ints = pa.chunked_array([pa.array([1, 2])])
    floats = pa.chunked_array([pa.array([2.0, 2.5])])
    first, second, values = codes_of_pair(ints, floats)
    assert (
        values.to_pylist() == [1.0, 2.0, 2.5]
        and first.tolist() == [0, 1]
        and second.tolist() == [1, 2]
    )
    wide = pa.chunked_array([pa.array([-(2**60), 2**60, 5])])
    first, second, values = codes_of_pair(wide, wide.slice(1))
    assert values.to_pylist() == [-(2**60), 5, 2**60] and second.tolist() == [2, 1]


def test_empty_tables_run_like_any_other(tables):
    truth, synthetic = tables
    scores = fastdp.evaluate(
        truth,
        synthetic.slice(0, 0),
        metrics=["deid2", "kmarginal", "pairwise", "coverage", "nist2018"],
    )
    assert scores["deid2"]["overall"] == 0.0 and scores["kmarginal"]["score"] == 0.0
    assert fastdp.evaluate(truth.slice(0, 0), synthetic.slice(0, 0))["kmarginal"]["score"] == 1000.0


def test_numbers_that_the_truth_does_not_have_fall_between_its_values():
    """Few true values, many synthetic ones: each is wrong unless it is a true value, and the cells
    are the truth's values with the gaps between them."""
    from fastdp.metrics.inputs import by_values

    rng = np.random.default_rng(3)
    true = pa.table({"x": rng.choice([0.0, 0.5, 3.25], 900)})
    made = rng.random(900) * 4
    made[:300] = 0.5
    pair = by_values(true, pa.table({"x": [*made.tolist(), None]}), None)
    assert pair.sizes["x"] == 8 and pair.label("x", 7) == "null" and pair.label("x", 3) == "0.5"
    assert pair.label("x", 4) == "between 0.5 and 3.25"
    assert set(pair.truth["x"].tolist()) == {1, 3, 5}
    odd = np.isin(pair.synthetic["x"], [1, 3, 5])
    assert odd.sum() == 300 and (pair.synthetic["x"][-1] == 7)


def test_bins_of_dates_are_named_by_dates():
    """The page said "where date is 1.67573e+09 to 1.67789e+09"."""
    from fastdp.metrics.original import in_cells

    days = np.arange("2023-01-01", "2024-01-01", dtype="datetime64[D]")
    hours = days.astype("datetime64[s]") + np.timedelta64(3661, "s")
    table = pa.table({"day": pa.array(days), "at": pa.array(hours), "x": np.arange(len(days))})
    _, pair = in_cells(table, table, None)
    assert pair.label("day", 1) == "2023-01-19 to 2023-02-06"
    assert pair.label("at", 0) == "< 2023-01-19 01:01:01"
    assert pair.label("x", 0) == "< 18"
