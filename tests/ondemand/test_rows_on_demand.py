"""Completed rows, rows under conditions and designs, and predictions, from one small run.

Frequencies are compared with the model within five standard errors: below 1e-6 a comparison.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastdp
from fastdp.errors import DataError, UsageError
from fastdp.ondemand.known_rows import Known

COLUMNS = {
    "city": {"kind": "string", "values": ["Rome", "Oslo", "Bern", "Nice"], "null": "code"},
    "age": {"kind": "integer", "dtype": "int64", "min": 0, "max": 30},
    "fare": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 40], "digits": 2},
    "paid": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 40, 60], "digits": 2},
    "when": {
        "kind": "timestamp",
        "dtype": "timestamp[s]",
        "min": "2026-01-01",
        "max": "2026-01-31",
        "parts": ["date", "hour"],
    },
    "child": {"kind": "categorical", "dtype": "bool", "values": [False, True]},
}
SCHEMA = fastdp.Schema.from_dict(
    {
        "columns": COLUMNS,
        "constraints": [
            {"order": ["fare", "paid"]},
            {"require": "child == (age < 18)"},
        ],
    }
)
ROWS = 20_000


def table():
    rng = np.random.default_rng(1)
    city = rng.choice(["Rome", "Oslo", "Bern"], ROWS, p=[0.7, 0.29, 0.01])
    age = np.where(city == "Oslo", rng.integers(15, 31, ROWS), rng.integers(0, 31, ROWS))
    fare = np.round(rng.uniform(0, 40, ROWS), 2)
    when = np.datetime64("2026-01-01") + (rng.random(ROWS) * 31 * 86_400).astype("m8[s]")
    return pa.table(
        {
            "city": city,
            "age": age,
            "fare": fare,
            "paid": np.round(fare + rng.uniform(0, 5, ROWS), 2),
            "when": when.astype("datetime64[s]"),
            "child": age < 18,
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demand") / "run"
    how = {"schema": SCHEMA, "seed": 1, "sample_seed": 2, "out": out}
    return fastdp.synthesize(table(), "mst", 20.0, 1e-6, **how)


def shares(column):
    counted = column.value_counts().to_pylist()
    return {item["values"]: item["counts"] / len(column) for item in counted}


def test_given_values_stay_nulls_are_filled_and_constraints_hold(run):
    frame = pa.table(
        {
            "fare": pa.array([39.99, 9.99, None, 15.0] * 500),
            "age": pa.array([None, 17, 3, 30] * 500, pa.int64()),
            "city": pa.array(["Oslo", None, "Bern", "Rome"] * 500),
        }
    )
    made = run.complete(frame, seed=1)
    assert made.column_names == list(COLUMNS) and made.num_rows == 2000
    for name in frame.column_names:
        there = frame[name].is_valid()
        assert made[name].filter(there).equals(frame[name].filter(there).cast(made[name].type))
        assert made[name].null_count == 0
    rows = made.to_pylist()
    assert all(r["fare"] <= r["paid"] and r["child"] == (r["age"] < 18) for r in rows)
    again = run.complete(frame, seed=1, threads=1)
    assert again.equals(made) and not run.complete(frame, seed=2).equals(made)
    assert fastdp.load_run(run.out).complete(frame, seed=1).equals(made)
    assert again.schema.metadata[b"fastdp.private"] == b"false"  # as the run's own rows say


def test_columns_follow_the_models_conditional(run):
    """Given a city that hardly occurs, a time and an age, others are distributed as the model says."""
    n = 30_000
    made = run.complete({"city": ["Oslo"] * n}, seed=3)
    together = run.model.marginal(("city", "age"))
    codes = run.model.merged.get("city", np.arange(4))
    want = together[codes[1]] / together[codes[1]].sum()
    assert run.model.domain["age"] >= 31  # ages keep their own codes here
    found = shares(made["age"])
    for age in range(31):
        p = want[age]
        assert abs(found.get(age, 0) - p) <= 5 * np.sqrt(max(p, 1e-4) / n)


def test_conditions_are_met_by_conditioning(run):
    """A condition of 1 in 100 and ranges inside bins: every row matches, and the others follow."""
    for where, fits in (
        ({"city": "Bern"}, lambda r: r["city"] == "Bern"),
        ({"fare": (12.5, 13)}, lambda r: 12.5 <= r["fare"] < 13),
        ({"fare": [12.5, 33.0]}, lambda r: r["fare"] in (12.5, 33.0)),
        ({"child": True, "city": ["Oslo", "Bern"]}, lambda r: r["child"] and r["city"] != "Rome"),
        (
            {"when": ("2026-01-05", "2026-01-06")},
            lambda r: str(r["when"]).startswith("2026-01-05"),
        ),
    ):
        made = run.sample(400, seed=3, where=where)
        assert made.num_rows == 400 and all(fits(r) for r in made.to_pylist()), where
        assert all(r["fare"] <= r["paid"] for r in made.to_pylist())
        assert fastdp.load_run(run.out).sample(400, seed=3, where=where).equals(made)
    wide = run.sample(20_000, seed=4, where={"fare": (5, 15)})
    low = pc.mean(pc.less(wide["fare"], 10).cast("float64")).as_py()
    bins = run.model.marginal(("fare",))
    want = bins[0] / (bins[0] + bins[1])  # half of each bin
    assert abs(low - want) <= 5 * np.sqrt(0.25 / 20_000)


def test_a_design_has_its_shares_to_the_row(run):
    made = run.sample(
        900, seed=1, weights={"city": ["Rome", "Oslo", "Bern"], "age": {(0, 18): 1, (18, 31): 2}}
    )
    assert set(shares(made["city"]).values()) == {1 / 3}
    assert shares(made["child"]) == {True: 1 / 3, False: 2 / 3}
    together = made.group_by(["city", "child"]).aggregate([("age", "count")])["age_count"]
    assert len(together) == 6 and pc.min(together).as_py() > 50  # columns are crossed
    equal = run.sample(300, seed=2, weights={"child": "equal"}, where={"city": "Oslo"})
    assert shares(equal["child"]) == {True: 0.5, False: 0.5} and shares(equal["city"]) == {
        "Oslo": 1
    }


def test_what_cannot_be_is_said(run):
    for where, said in (
        ({"citty": "Rome"}, "did you mean 'city'"),
        ({"age": (40, 50)}, "no row of this run's model matches"),
        ({"age": 3, "child": False}, "each condition alone is possible"),
        ({"fare": 99}, "outside its bins"),
        (["city"], "expected a mapping"),
    ):
        with pytest.raises(UsageError, match=said):
            run.sample(5, where=where)
    for weights, said in (
        ({"city": {"Rome": -1}}, "shares >= 0"),
        ({"city": {}}, "shares >= 0"),
        ({"town": ["Rome"]}, "weights: there is no column 'town'"),
        (3, "expected a mapping"),
    ):
        with pytest.raises(UsageError, match=said):
            run.sample(5, weights=weights)
    for frame, kind, said in (
        ({"citty": ["Rome"]}, UsageError, "did you mean 'city'"),
        ({}, UsageError, "no columns"),
        ({"age": [3], "child": [False]}, DataError, r"row 1: its values break constraint 2"),
        ({"fare": [30.0], "paid": [15.0]}, DataError, r"row 1: its values break constraint 1"),
        ({"fare": [35.0], "paid": [30.0]}, DataError, r"do not fit constraint 1"),
        ({"age": ["old"]}, DataError, "row 1: the value cannot be written as int64"),
        ({"age": [{"a": 1}]}, DataError, "column 'age' is struct"),
    ):
        with pytest.raises(kind, match=said):
            run.complete(frame, seed=1)
    with pytest.raises(UsageError, match="nulls must be one of"):
        run.complete({"age": [1]}, nulls="drop")
    with pytest.raises(UsageError, match="seed must be"):
        run.complete({"age": [1]}, seed=-1)
    nothing = run.complete(pa.table({"age": pa.array([], pa.int64())}))
    assert nothing.num_rows == 0 and nothing.column_names == list(COLUMNS)
    odd = run.complete({"city": ["Nice", "Atlantis"], "age": [2, None]}, seed=1).to_pylist()
    assert [r["city"] for r in odd] == ["Nice", "Atlantis"]  # no rows in the model, yet possible
    assert odd[0]["child"] is True and odd[1]["age"] is not None


def test_nulls_can_be_filled_drawn_or_kept(run):
    frame = {"city": [None] * 3000, "age": [5] * 3000}
    assert run.complete(frame, seed=1)["city"].null_count == 0
    assert run.complete(frame, seed=1, nulls="keep")["city"].null_count == 3000
    drawn = run.complete(frame, seed=1, nulls="draw")["city"].null_count
    assert drawn < 300  # nulls are rare in the model


def test_a_classifier_gives_the_models_probabilities(run):
    made = run.classifier("city")
    together = run.model.marginal(("city", "age"))
    codes = run.model.merged.get("city", np.arange(4))
    chances = made.predict_proba({"age": [3, 25]})
    assert np.allclose(chances.sum(axis=1), 1)
    rome = list(made.classes_).index("Rome")
    for row, age in enumerate((3, 25)):
        want = together[codes[0], age] / together[:, age].sum()
        assert np.isclose(chances[row, rome], want, rtol=1e-6)
    assert made.predict({"age": [3]}).tolist() == ["Rome"]
    assert made.fit() is made and made.score({"age": [3, 3]}, ["Rome", "Oslo"]) == 0.5
    # Its own column is not used.
    told = run.predict(pa.table({"age": [3], "city": ["Oslo"]}), "city")
    assert np.allclose([told[n][0].as_py() for n in told.column_names], chances[0])
    bins = run.classifier("fare")
    assert bins.classes_[0] == "[0, 10)"
    with pytest.raises(UsageError, match="modelled in parts"):
        run.classifier("when")
    with pytest.raises(UsageError, match="did you mean 'city'"):
        run.classifier("citty")
    sklearn = pytest.importorskip("sklearn.base")
    assert sklearn.is_classifier(made) and sklearn.clone(made).predict({"age": [3]}) == ["Rome"]


def test_values_that_share_a_code_and_drawn_columns_keep_their_conditionals(run):
    """The law of rows over merged codes, a column drawn given another, and groups, by enumeration."""
    from fastdp.domain import Domain
    from fastdp.model.graphical_model import Model, Node
    from fastdp.model.row_facts import DrawnColumn, RowFacts
    from fastdp.ondemand.known_rows import Known
    from fastdp.ondemand.row_law import RowLaw

    rng = np.random.default_rng(3)
    schema = fastdp.Schema.from_domain({"a": 4, "b": 3, "c": 3}, user=None)
    domain = Domain({"a": 2, "b": 3, "c": 1, "group": 2})
    table = rng.random((2, 2 * 3)) + 0.1
    nodes = [
        Node((), ("group",), table.sum(axis=1)[None]),
        Node(("group",), ("a", "b"), table),
        Node((), ("c",), np.array([[table.sum()]])),
    ]
    model = Model(domain, nodes, total=float(table.sum()))
    merged = np.array([0, 1, 1, 1])
    model.merged = {"a": merged, "c": np.zeros(3, np.int64)}
    within = {"a": np.array([1.0, 2.0, 1.0, 5.0])}
    given = DrawnColumn(
        "c",
        "a",
        np.array([0, 1, 2]),
        np.array([0, 1, 3, 3, 3]),
        np.array([4.0, 5.0, 7.0]),
        np.array([1.0, 2.0, 4.0]),
    )
    model.facts = RowFacts(within, (given,), "group", np.array([3.0, 1.0]))
    part = within["a"] / np.bincount(merged, within["a"])[merged]
    cells = table.reshape(2, 2, 3)[:, merged] * part[None, :, None]
    cells /= cells.sum(axis=(1, 2), keepdims=True)
    rows = (np.array([0.75, 0.25])[:, None, None] * cells).sum(axis=0)
    p = rows[:, :, None] * given.table()[:, None, :]  # [a, b, c]
    law = RowLaw(schema, model)
    n = 60_000
    for known in ({}, {"c": 1}, {"b": 2, "c": 2}, {"a": 3}, {"b": 0}):
        codes = {name: np.full(n, code, np.int32) for name, code in known.items()}
        drawn, _ = law.draw(Known(n, codes), 5)
        own = np.zeros_like(p)
        at = tuple(known.get(name, slice(None)) for name in "abc")
        own[at] = p[at]
        log = law.log_probability(Known(1, {k: v[:1] for k, v in codes.items()}))
        left = own if "a" not in known else own / part[3]  # the probability of its shared code
        assert np.isclose(np.exp(log[0]), left.sum(), rtol=1e-9), known
        own /= own.sum()
        found = np.zeros(p.shape)
        np.add.at(found, tuple(drawn[name] for name in "abc"), 1 / n)
        assert (np.abs(found - own) <= 5 * np.sqrt(np.maximum(own, 1e-4) / n)).all(), known
        for name, axis in (("a", (1, 2)), ("b", (0, 2)), ("c", (0, 1))):
            if name not in known:
                first = {k: v[:1] for k, v in codes.items()}
                assert np.allclose(law.chances(name, Known(1, first))[0], own.sum(axis=axis))


def test_the_facts_about_rows_survive_the_file(run, tmp_path):
    facts = run.model.facts
    assert facts is not None
    again = fastdp.Model.load(run.out / "model.fastdp").facts
    assert list(again.within) == list(facts.within)
    for name, weights in facts.within.items():
        assert np.array_equal(weights, again.within[name])
    bare = replace(run, model=fastdp.Model.load(run.out / "model.fastdp"))
    bare.model.facts = None  # a folder of an earlier version: values that share a code are even
    assert bare.complete({"age": [1, 2]}, seed=1).num_rows == 2


def test_frames_of_every_kind_are_completed_or_refused(run):
    """Frames that people have at hand, and frames that are wrong: an answer or an error of ours that
    names the column, for `complete` and for `predict`, and never a warning of numpy's."""
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    whole = {"age": [1, None], "city": ["Oslo", None]}
    good = [
        pd.DataFrame(whole),
        pd.DataFrame({"age": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"city": pd.Categorical(["Oslo", None])}),
        pl.DataFrame(whole),
        pl.LazyFrame(whole),
        pl.DataFrame({"city": pl.Series(["Oslo", None], dtype=pl.Categorical)}),
        pa.table({"age": pa.nulls(2)}),
        pa.table({"age": pa.chunked_array([[1], [None]], pa.int64())}),
        pa.table({"city": pa.array(["Oslo", "Rome"], pa.string_view())}),
        {"fare": [float("nan"), 3.0]},
        {"fare": ["12.5", None]},
        {"age": [None, None], "city": [None, None], "fare": [None, None]},
        {"when": ["2026-01-05T10:00:00", None]},
    ]
    for frame in good:
        with np.errstate(all="raise", under="ignore"):
            made = run.complete(frame, seed=1)
            assert made.num_rows == 2 and not any(c.null_count for c in made.columns)
            assert run.predict(frame, "city").num_rows == 2
    for frame in (pd.DataFrame({"age": []}), pl.DataFrame({"age": []}), {"age": []}):
        assert run.complete(frame).num_rows == run.predict(frame, "city").num_rows == 0
    bad = [
        (None, "cannot read an object of type NoneType"),
        (3, "cannot read an object of type int"),
        ([{"age": 1}], "states no types"),
        ({1: [2]}, "keys are names of columns"),
        ({"age": [1, 2], "city": ["Oslo"]}, "different lengths: age, city"),
        ({"age": [2**70]}, "column 'age': its values do not have one type"),
        ({"age": [1, "x"]}, "column 'age': its values do not have one type"),
        ({"age": [1], "zzz": [2]}, "no column 'zzz'"),
        (pa.table([[1], [2]], names=["age", "age"]), "'age' occurs twice"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "'age' occurs twice"),
        ({"city": [["Oslo"]]}, "column 'city' is list"),
        (pd.DataFrame(), "no columns"),
    ]
    for frame, said in bad:
        for ask in (run.complete, lambda f: run.predict(f, "child")):
            if said == "no columns" and ask is not run.complete:
                continue
            with pytest.raises((UsageError, DataError), match=said):
                ask(frame)


def test_no_row_is_made_of_months_outside_a_span():
    """Evidence that the model does not have is drawn from a softened one. It keeps months outside the
    span impossible, as the rows of the run do, also where a schema has no constraints."""
    when = {"kind": "timestamp", "dtype": "timestamp[s]", "parts": ["year", "month"]}
    when |= {"min": "2020-09-01", "max": "2021-06-30"}
    schema = fastdp.Schema.from_dict({"columns": {"when": when}})
    days = np.random.default_rng(1).integers(0, 300, 2000).astype("m8[D]")
    times = (np.datetime64("2020-09-01") + days).astype("datetime64[s]")
    run = fastdp.synthesize(
        pa.table({"when": times}), "mst", epsilon=5.0, delta=1e-6, schema=schema, seed=1
    )
    months = np.array([0, 7, 8, 11], np.int32)
    known = Known(4, {"when_year": np.zeros(4, np.int32), "when_month": months})
    _, logs = run._law.draw(known, 1)
    assert np.isfinite(logs).tolist() == [False, False, True, True]
