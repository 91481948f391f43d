"""The other scores against their slow twins, and what must hold for each."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp._core import score
from fastdp.errors import UsageError
from fastdp.metrics import (
    coverage,
    kmarginal,
    original,
    pairwise,
    total_variation as distance,
    utility,
)
from fastdp.metrics.challenges import sprint1
from fastdp.metrics.inputs import kernel_ready, pair_up
from tests.reference import scores as slow
from tests.tiers import first


def frames(seed: int, rows=(300, 200)) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    out = []
    for n in rows:
        a = rng.integers(0, 4, n)
        b = (a + rng.integers(0, 2, n)) % 4
        c = rng.choice(["x", "y", "z"], n)
        out.append(pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 7, n)}))
    return out


@given(st.integers(0, 10_000), st.integers(1, 80), st.integers(1, 80))
@settings(max_examples=15, deadline=None)
def test_kmarginal_is_the_mean_of_total_variations(seed, n, m):
    truth, synthetic = frames(seed, (n, m))
    result = kmarginal.score(pair_up(truth, synthetic, None), 2)
    pairs = [["a", "b"], ["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"], ["c", "d"]]
    mean = np.mean([slow.total_variation(truth, synthetic, p) for p in pairs])
    assert result["score"] == pytest.approx(1000 * (1 - mean), abs=1e-9)
    assert result["marginals"] == result["possible"] == 6


def test_sparse_counting_gives_the_same(monkeypatch):
    pair = pair_up(*frames(1), None)
    city = np.random.default_rng(1).integers(0, 40, (2, 900))
    towns = [pa.table({"city": c, "state": c // 8}) for c in city]
    cliques = [("a", "b", "c"), ("d",), ("a", "d")]
    dense = distance.total_variation(pair, cliques)
    worst = original.score(*towns, None)["kinds"]
    assert "state follows from city" in worst["dependency"]["what"]
    monkeypatch.setattr(distance, "DENSE_CELLS", (1, 1))
    assert distance.total_variation(pair, cliques) == pytest.approx(dense)
    assert original.score(*towns, None)["kinds"] == worst
    assert pairwise.two_way(pair)[1]["truth"][0][1] > 0.3


@pytest.mark.slow
def test_the_cost_is_that_of_the_rows_and_not_of_the_codes():
    """A list of all labels, or a dense count, would take more memory than any machine has."""
    schema = fastdp.Schema.from_domain({"a": 1 << 30, "b": 1 << 30})
    tables = [pa.table({"a": [5, 5, 1 << 29], "b": [k, 1, 2]}) for k in (1, 2)]
    scores = fastdp.evaluate(*tables, schema=schema, metrics=["pairwise", "coverage"])
    assert scores["tv2"]["max"] == pytest.approx(1 / 3) and scores["coverage"]["invented"] == 0
    assert (
        coverage.score(pair_up(tables[0], tables[1].slice(1), schema))["columns"]["a"]["missing"]
        == 0
    )


def test_kmarginal_samples_by_seed():
    pair = pair_up(*frames(2), None)
    one, same, other = (kmarginal.score(pair, 2, limit=3, seed=s) for s in (1, 1, 2))
    assert one == same and one["sampled"] and one["marginals"] == 3
    assert {tuple(w["columns"]) for w in one["worst"]} != {
        tuple(w["columns"]) for w in other["worst"]
    }
    for bad in (0, -1, True, 1.5):
        with pytest.raises(UsageError, match="k must be"):
            kmarginal.score(pair, bad)


def test_scores_of_pairs_are_those_of_scipy():
    truth, synthetic = frames(4)
    pair = pair_up(truth, synthetic, None)
    variation, association = pairwise.two_way(pair)
    names = variation["columns"]
    for i, x in enumerate(names):
        for j, y in enumerate(names):
            if i != j:
                assert variation["matrix"][i][j] == pytest.approx(
                    slow.total_variation(truth, synthetic, [x, y])
                )
                assert association["truth"][i][j] == pytest.approx(
                    slow.cramers_v(truth[x], truth[y])
                )
    one = pairwise.one_way(pair)
    assert one["by_column"]["c"] == pytest.approx(slow.total_variation(truth, synthetic, ["c"]))


def test_correlations_are_those_of_numpy():
    truth, synthetic = frames(5)
    result = pairwise.correlation(pair_up(truth, synthetic, None))
    assert result["columns"] == ["a", "b", "d"]
    assert np.allclose(result["truth"], np.corrcoef(truth[["a", "b", "d"]].T))
    assert pairwise.correlation(pair_up(truth[["c"]], synthetic[["c"]], None)) is None


def test_coverage_counts_values_and_rows():
    truth = pd.DataFrame({"a": ["x", "x", "y", "z"]})
    synthetic = pd.DataFrame({"a": ["x", "w"]})
    result = coverage.score(pair_up(truth, synthetic, None))
    column = result["columns"]["a"]
    assert (column["missing"], column["missing_rows"], column["missing_values"]) == (
        2,
        0.5,
        ["y", "z"],
    )
    assert (column["invented"], column["invented_rows"], column["invented_values"]) == (
        1,
        0.5,
        ["w"],
    )
    assert result["missing"] == pytest.approx(2 / 3) and result["invented"] == 0.5


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_sprint1_rows_against_scipy(seed):
    rng = np.random.default_rng(seed)
    truth = rng.poisson(rng.choice([0, 1, 40, 300]), (6, 9))
    synthetic = truth + rng.integers(-30, 31, (6, 9)) * rng.integers(0, 2, (6, 1))
    synthetic = np.maximum(synthetic, 0)
    expected = [slow.sprint1_row(a, b) for a, b in zip(truth, synthetic, strict=True)]
    assert sprint1.rows_score(truth, synthetic) == pytest.approx(expected, abs=1e-9)


def test_utility_tells_signal_from_noise():
    pytest.importorskip("sklearn")
    truth, good = frames(6, (1500, 1500))
    result = utility.score(pair_up(truth, good, None), "b")
    assert result["measure"] == "accuracy" and result["truth"] > result["constant"] + 0.1
    assert result["score"] > 0.7
    noise = good.assign(b=np.random.default_rng(1).permutation(good["b"]))
    assert utility.score(pair_up(truth, noise, None), "b")["score"] < 0.4
    with pytest.raises(UsageError, match="target"):
        utility.score(pair_up(truth, good, None), "nope")


def trips(rows=6000, seed=0):
    """Fares that add up, a zone that follows from the area, users who travel every hour or so."""
    rng = np.random.default_rng(seed)
    area = rng.integers(0, 12, rows)
    kind = rng.choice(["cash", "card"], rows)
    fare = np.round(rng.gamma(3, 4, rows) * (1 + (kind == "card")), 2)
    tip = np.round(rng.gamma(2, 1, rows), 2)
    user = np.arange(rows) // 10
    start = np.datetime64("2024-01-01", "s") + 3600 * np.arange(rows)
    columns = {"user": user, "start": start, "area": area, "zone": area // 4, "kind": kind}
    return pa.table(columns | {"fare": fare, "tip": tip, "total": np.round(fare + tip, 2)})


def broken(kind, table):
    """The table with one thing spoilt and everything of fewer columns kept."""
    rng = np.random.default_rng(9)
    mixed = {
        "identity": "total",
        "dependency": "zone",
        "mean": "kind",
        "correlation": "tip",
        "gap": "user",
    }
    if kind == "column":
        rare = np.array(["p", "q", "r", "s"])[table["zone"].to_numpy()]
        return table.append_column("code", pa.array(np.where(rare == "p", "(other)", rare)))
    name = mixed[kind]
    values = table[name].take(pa.array(rng.permutation(len(table))))
    if kind == "identity":  # two cents more or less: all but the sum stays
        values = pa.array(table["total"].to_numpy() + rng.choice([-0.02, 0.02], len(table)))
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("kind", "kept"),
    first(
        3,
        [
            ("column", ("gap", "identity")),
            ("dependency", ("column", "gap", "identity")),
            ("mean", ("column", "gap", "identity", "dependency")),
            ("identity", ("column", "gap", "dependency", "mean")),
            ("gap", ("column", "identity", "dependency", "mean")),
        ],
    ),
)
def test_what_was_spoilt_is_seen_and_nothing_else(kind, kept):
    table = truth = trips()
    if kind == "column":
        letters = np.array(["p", "q", "r", "s"])[table["zone"].to_numpy()]
        truth = table.append_column("code", pa.array(letters))
    same = original.score(truth, truth, "user")
    assert set(same["kinds"]) == {
        "column",
        "pair",
        "correlation",
        "mean",
        "gap",
        "identity",
        "dependency",
    }
    assert same["worst"]["wrong"] < 1e-9
    found = original.score(truth, broken(kind, table), "user")
    assert found["worst"]["wrong"] >= found["kinds"][kind]["wrong"] > 0.3
    assert {k: found["kinds"][k]["wrong"] for k in kept if found["kinds"][k]["wrong"] > 0.1} == {}


def test_large_tables_are_thinned_alike(monkeypatch):
    """Codes, numbers and times of thinned rows stay in step: a table against itself is still
    right."""
    monkeypatch.setattr(original, "MOST_ROWS", 1500)
    table = trips()
    assert original.score(table, table, "user")["worst"]["wrong"] < 1e-9
    spoilt = original.score(table, broken("mean", table), "user")["kinds"]
    assert (
        spoilt["mean"]["wrong"] > 0.3
        and spoilt["identity"]["wrong"] == 0
        and spoilt["gap"]["wrong"] == 0
    )


def test_a_schema_that_hides_values_does_not_hide_their_loss():
    """Both tables read alike under a schema that knows one of two towns; in original values they do
    not."""
    towns = np.where(np.arange(1000) % 2 == 0, "here", "there")
    truth = pa.table({"town": towns})
    made = pa.table({"town": np.where(towns == "there", "(other)", towns)})
    entry = {"kind": "categorical", "dtype": "string", "values": ["here"], "null": "drop"}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "columns": {"town": entry}})
    found = fastdp.evaluate(truth, made, schema, metrics=["tv1", "original"], baselines=())
    assert found["tv1"]["max"] == 0 and found["original"]["columns"]["town"] == pytest.approx(0.5)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("odd", [np.nan, 1e300, np.inf])
def test_columns_without_ordinary_numbers_are_compared_by_their_values_alone(odd):
    """Means of no numbers had warned; squares of huge ones had ended a report in an error of linear
    algebra."""
    rng = np.random.default_rng(0)
    numbers = {name: rng.normal(size=600) for name in "abc"}
    strange = np.where(rng.random(600) < 0.5, odd, np.nan)
    truth = pa.table(numbers | {"odd": strange, "group": rng.integers(0, 3, 600)})
    found = original.score(truth, truth, None)
    assert found["worst"]["wrong"] < 1e-9 and "odd" in found["columns"]
    what = [item["what"] for item in found["kinds"]["mean"]["items"]]
    assert what and not any("of odd" in text for text in what)


def test_text_and_numbers_of_one_column_are_brought_together():
    truth, made = pa.table({"zip": ["01", "02"] * 50}), pa.table({"zip": [1, 2] * 50})
    assert original.score(truth, made, None)["columns"]["zip"] == 0
    assert original.score(truth.slice(0, 0), made, None) is None


# The metric `users`: figures worked out by hand, its range, and where it applies.


SCHEMA = fastdp.Schema.from_domain({"a": 4, "b": 4}, user="who")
# Users 1 and 2 have one value of a; user 3 agrees in one of three pairs; user 4, with one row, has
# no pairs.
TRUTH = pa.table(
    {"who": [1, 1, 2, 2, 3, 3, 3, 4], "a": [0, 0, 1, 1, 2, 2, 3, 0], "b": [0, 1, 0, 1, 0, 1, 2, 3]}
)


def users(truth, made, **options):
    return fastdp.evaluate(truth, made, SCHEMA, metrics="users", **options)["users"]


def test_figures_of_a_small_table():
    same = users(TRUTH, TRUTH)
    assert same["rows"] == same["agreement"] == same["constant"] == same["distinct"] == 0
    a, b = (same["columns"][name]["truth"] for name in "ab")
    assert a["agreement"] == pytest.approx((1 + 1 + 1 / 3) / 3) and b["agreement"] == 0
    assert a["constant"] == pytest.approx(2 / 3) and b["constant"] == 0
    assert a["distinct"] == pytest.approx(4 / 3) and b["distinct"] == pytest.approx(7 / 3)
    assert (
        same["rows_per_user"]["truth"]["users"] == 4 and same["rows_per_user"]["truth"]["max"] == 3
    )


def test_differences_are_those_of_the_figures():
    """Ids dealt anew, so that user 1 has a = 0, 1 and user 2 has a = 0, 1: agreement of a falls by
    2/3."""
    dealt = TRUTH.set_column(0, "who", pa.array([1, 2, 1, 2, 3, 3, 3, 4]))
    scores = users(TRUTH, dealt)
    assert scores["agreement"] == pytest.approx((2 / 3 + 2 / 3) / 2)  # a falls, b rises
    assert scores["constant"] == pytest.approx((2 / 3 + 2 / 3) / 2) and scores["rows"] == 0
    one = TRUTH.set_column(0, "who", pa.array(np.zeros(8, np.int64)))
    assert users(TRUTH, one)["rows"] == 1.0


def test_it_applies_where_both_tables_have_users():
    without = TRUTH.drop_columns(["who"])
    assert "users" in fastdp.evaluate(TRUTH, TRUTH, SCHEMA, metrics="all", marginals=5)
    assert "users" not in fastdp.evaluate(TRUTH, without, SCHEMA, metrics="users")
    # Nobody says whose rows they are.
    assert "users" not in fastdp.evaluate(TRUTH, TRUTH, metrics="users")
    texts = TRUTH.set_column(0, "who", pa.array([f"synthetic-{i}" for i in range(8)]))
    assert users(TRUTH, texts)["rows_per_user"]["synthetic"]["users"] == 8


def test_a_page_shows_it(tmp_path):
    fastdp.evaluate(TRUTH, TRUTH, SCHEMA, report=tmp_path / "r.html", marginals=5)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "agreement of users" in page and "<td>0.78 / 0.78</td><td>0.67 / 0.67</td>" in page


# The score kernels against numpy: all widths, ragged shapes, one thread and many.


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_marking_and_recoding_equal_numpy_for_every_type(dtype, rows):
    low = 0 if "u" in dtype else -7
    values = np.random.default_rng(1).integers(low, 90, rows).astype(dtype)
    seen = np.zeros(100, np.uint8)
    score.mark(kernel_ready(values), low, seen)
    assert np.array_equal(np.flatnonzero(seen) + low, np.unique(values))
    table = np.random.default_rng(2).integers(0, 256, 100).astype(np.uint8)
    assert np.array_equal(
        score.recode(kernel_ready(values), low, table), table[values.astype(int) - low]
    )
