"""Constraints of a schema hold in every synthetic row, whatever mechanism, noise and private
rows."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import fastdp
from fastdp.codec.violations import count_violations
from fastdp.errors import ModelTooLargeError, RunError, SchemaError, UsageError
from fastdp.mechanisms import registry
from fastdp.privacy import statement
from tests.reference.constraints import broken
from tests.tiers import first, slow_cases

MECHANISMS = {
    "mst": {"mechanism": "mst"},
    "cliquetree": {"mechanism": "cliquetree"},
    "aim": {"mechanism": "aim", "rounds": 6},
    "adagrid": {"mechanism": "adagrid"},
    "adagrid, outer": {
        "mechanism": "adagrid",
        "outer": [["start", "end", "age"], ["state", "city"]],
    },
    "tworound": {"mechanism": "tworound"},
    "tworound, listed": {
        "mechanism": "tworound",
        "round2": [["start", "age"], ["end", "state"], ["state", "city"]],
    },
}
CITIES = {"MA": ["Boston", "Salem", "Lynn"], "NY": ["Albany", "Troy"], "CT": ["Hartford"]}
RULES = [
    {"column": "month", "follows": "month(time)"},
    {"order": ["start", "end"]},
    {"columns": ["state", "city"], "allowed": [[s, c] for s, c in CITIES.items()]},
    {"require": "age >= 16 or married == 'no'"},
    {"column": "decade", "follows": "age // 10", "model": False},
]


def schema_of(rules=RULES, user=None):
    span = {"min": "2013-01-01", "max": "2013-03-31", "step": 60}
    columns = {
        "time": {"kind": "timestamp", "parts": {"date": "date"}, **span},
        "month": {"kind": "integer", "min": 1, "max": 12},
        "start": {
            "kind": "numeric",
            "edges": [0, 5, 10, 20, 40],
            "overflow": "clamp",
            "null": "drop",
        },
        "end": {
            "kind": "numeric",
            "edges": [0, 8, 16, 24, "inf"],
            "overflow": "clamp",
            "digits": 1,
        },
        "state": {"kind": "string", "values": list(CITIES)},
        "city": {
            "kind": "string",
            "values": [c for names in CITIES.values() for c in names],
            "null": "drop",
        },
        "age": {"kind": "integer", "max": 80},
        "married": {"kind": "string", "values": ["yes", "no"]},
        "decade": {"kind": "integer", "max": 8},
    }
    plain = {"columns": columns, "constraints": rules}
    return fastdp.Schema.from_dict(
        plain | ({"user": {"column": "id", "max_rows": 5}} if user else {})
    )


def rows(n=600, seed=0, wrong=0.05):
    """Rows that obey the rules, but for a share of `wrong` ones, and some nulls."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 90, n)
    date = np.datetime64("2013-01-01") + day
    state = rng.choice(list(CITIES), n)
    age = rng.integers(0, 81, n)
    start = rng.gamma(2, 6, n)
    table = {
        "time": date.astype("datetime64[us]"),
        "month": date.astype("datetime64[M]").astype(int) % 12 + 1,
        "start": start,
        "end": start + rng.gamma(1, 5, n),
        "state": state,
        "city": np.array([rng.choice(CITIES[s]) for s in state]),
        "age": age,
        "married": np.where(age < 16, "no", rng.choice(["yes", "no"], n)),
        "decade": age // 10,
    }
    for name, column in table.items():
        spoilt = rng.random(n) < wrong
        table[name] = np.where(spoilt, rng.permutation(column), column)
    return pa.table({k: pa.array(v, mask=rng.random(n) < 0.02) for k, v in table.items()})


@pytest.mark.parametrize("name", first(3, MECHANISMS))
def test_every_synthetic_row_obeys(name):
    schema = schema_of()
    table = rows()
    assert min(broken(schema, table)) > 0
    run = fastdp.synthesize(
        table, MECHANISMS[name], 2.0, 1e-6, schema=schema, seed=1, sample_seed=2, rows=600
    )
    made = run.to_arrow()
    assert made.num_rows == 600 and broken(schema, made) == [0] * 5
    assert set(count_violations(schema, made).values()) == {0}
    assert made.column_names == list(schema.fields)
    assert run.privacy["mechanism"]["derived"] == ["decade"]
    assert "decade" not in run.model.domain


@pytest.mark.parametrize("mechanism", ["mst", *slow_cases("cliquetree")])
def test_the_model_follows_the_rows_where_they_obey(mechanism):
    """At a large epsilon the pairs that constraints are about come out as they are."""
    schema = schema_of()
    table = rows(3000, wrong=0.0)
    run = fastdp.synthesize(table, mechanism, 50.0, 1e-6, schema=schema, seed=1, sample_seed=2)
    scores = fastdp.evaluate(table, run, metrics=["tv2", "constraints"], baselines=())
    assert scores["tv2"]["mean"] < 0.09 and scores["constraints"]["synthetic"] == 0
    assert all(line["synthetic"] == 0 for line in scores["constraints"]["broken"])


@st.composite
def problems(draw):
    """A small schema of whole numbers and bins, and constraints that some row satisfies."""
    bins = {"kind": "numeric", "edges": [0, 1, 3, 6], "overflow": "clamp"}
    columns = {
        "a": {"kind": "integer", "max": 3},
        "b": {"kind": "integer", "max": 3, "null": draw(st.sampled_from(["code", "drop"]))},
        "c": {"kind": "integer", "max": 6},
        "x": {**bins, "null": draw(st.sampled_from(["code", "drop"]))},
        "y": {**bins, "dtype": draw(st.sampled_from(["float64", "int32"]))},
        "s": {"kind": "string", "values": ["p", "q", "r"]},
    }
    pair = st.tuples(st.sampled_from(["p", "q", "r"]), st.integers(0, 2))
    options = [
        {"order": ["x", "y"], "strict": draw(st.booleans())},
        {"order": ["a", "b"]},
        {
            "columns": ["s", "a"],
            "forbidden": [list(p) for p in draw(st.lists(pair, min_size=1, max_size=4))],
        },
        {"require": draw(st.sampled_from(["a + b <= 4", "a <= b or s == 'p'", "b != 2"]))},
        {
            "column": "c",
            "follows": draw(st.sampled_from(["a + b", "a * b % 6"])),
            "model": draw(st.booleans()),
        },
    ]
    chosen = draw(st.lists(st.sampled_from(range(5)), min_size=1, unique=True))
    return fastdp.Schema.from_dict(
        {"columns": columns, "constraints": [options[i] for i in sorted(chosen)]}
    )


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(
    problems(),
    st.sampled_from(registry.names_where(lambda traits: not traits.no_constraints)),
    st.integers(0, 100),
)
def test_random_constraints_on_random_rows(schema, mechanism, seed):
    rng = np.random.default_rng(seed)
    table = pa.table(
        {n: rng.integers(0, 4, 300) for n in "abc"}
        | {n: rng.random(300) * 6 for n in "xy"}
        | {"s": rng.choice(["p", "q", "r"], 300)}
    )
    recipe = {"mechanism": mechanism} | ({"rounds": 4} if mechanism == "aim" else {})
    run = fastdp.synthesize(
        table, recipe, 2.0, 1e-5, schema=schema, seed=seed, sample_seed=seed, rows=400
    )
    assert broken(schema, run.to_arrow()) == [0] * len(schema.constraints)


def test_rows_given_some_values_obey_too():
    schema = schema_of()
    run = fastdp.synthesize(
        rows(), {"mechanism": "adagrid"}, 5.0, 1e-6, schema=schema, seed=1, sample_seed=2
    )
    young = run.model.sample(500, seed=1, where={"age": 10})
    assert set(young["married"]) <= {1, 2, 3}  # no, outside, null
    there = run.model.sample(500, seed=1, where={"state": 2, "married": 0})
    assert set(there["city"]) <= {5, 6} and (there["age"] >= 16).all()
    with pytest.raises(UsageError, match="the model has no rows with"):
        run.model.sample(5, seed=1, where={"age": 10, "married": 0})


def test_a_plan_shows_and_refuses_what_constraints_bring_together():
    made = fastdp.plan(schema_of(), "mst", 1.0, 1e-6, rows=10_000_000)
    assert any("date x month" in note and "cells" in note for note in made.notes)
    assert any("decade: derived when rows are written" in note for note in made.notes)
    without = fastdp.plan(schema_of([]), "mst", 1.0, 1e-6, rows=10_000_000)
    assert made.model_cells != without.model_cells
    wide = {n: {"kind": "integer", "max": 2500} for n in ("first", "second", "third")}
    schema = fastdp.Schema.from_dict(
        {"columns": wide, "constraints": [{"order": ["first", "second"]}]}
    )
    made = fastdp.plan(schema, "cliquetree", 1.0, 1e-6, rows=10_000_000)
    assert "('first', 'second')" in made.too_large and "nothing was charged" in made.too_large
    with pytest.raises(ModelTooLargeError, match="first"):
        fastdp.synthesize(
            pa.table({n: [1, 2] for n in wide}), "cliquetree", 1.0, 1e-6, schema=schema
        )
    assert not fastdp.plan(
        schema, "cliquetree", 1.0, 1e-6, max_cells=9_000_000, rows=10_000_000
    ).too_large


def test_a_contradiction_is_refused_before_anything_is_charged(tmp_path):
    rules = [*RULES[:4], {"require": "age < 16"}, {"columns": ["married"], "allowed": [["yes"]]}]
    ledger = fastdp.Ledger.local(tmp_path / "ledger.db")
    with pytest.raises(SchemaError, match=r"exclude every row.*4 \(age >= 16.*5 \(age < 16\); 6"):
        fastdp.synthesize(
            rows(50), "mst", 1.0, 1e-6, schema=schema_of(rules), ledger=ledger, dataset="d"
        )
    assert ledger.entries() == []
    with pytest.raises(SchemaError, match="exclude every row"):
        fastdp.plan(schema_of(rules), "mst", 1.0, 1e-6, rows=10_000_000)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"mechanism": "usercounts", "columns": ["state", "month"], "cap": 1},
        {"mechanism": "archetypes"},
    ],
)
def test_mechanisms_that_cannot_keep_them_say_so(mechanism):
    with pytest.raises(
        UsageError, match=r"cannot satisfy the schema's constraints \(1 \(month = month\(time\)\)"
    ):
        fastdp.plan(schema_of(user="id"), mechanism, 1.0, 1e-6, rows=10_000_000)


def test_naming_a_derived_column_says_how_to_have_it_modelled():
    with pytest.raises(UsageError, match=r"'decade' follows from age.*model = true"):
        fastdp.plan(
            schema_of(),
            {"mechanism": "adagrid", "outer": [["decade", "state"]]},
            1.0,
            1e-6,
            rows=10_000_000,
        )


def test_verify_counts_rows_that_break_a_constraint(tmp_path):
    schema = schema_of()
    out = tmp_path / "run"
    fastdp.synthesize(rows(400), "mst", 5.0, 1e-6, schema=schema, out=out)
    fastdp.verify(out)
    path = out / "synthetic.parquet"
    table = pq.read_table(path)
    start = np.where(np.arange(table.num_rows) < 3, 39.0, table["start"].to_numpy())
    end = pa.array(
        np.where(np.arange(table.num_rows) < 3, 1.0, table["end"].to_numpy(zero_copy_only=False))
    )
    at = table.column_names.index("start"), table.column_names.index("end")
    table = table.set_column(at[0], "start", pa.array(start)).set_column(at[1], "end", end)
    pq.write_table(table, path)
    statement.write(out, json.loads((out / "privacy.json").read_text()))  # with the hash made anew
    with pytest.raises(RunError, match=r"3 rows break constraint 2 \(start <= end\)"):
        fastdp.verify(out)


@pytest.mark.parametrize("mechanism", first(2, ["mst", "cliquetree", "adagrid", "tworound"]))
def test_public_data_that_breaks_them_changes_nothing(mechanism):
    schema = schema_of()
    public = rows(400, seed=5, wrong=0.2)
    options = {"schema": schema, "public": public, "seed": 1, "sample_seed": 2, "rows": 300}
    run = fastdp.synthesize(rows(400), {"mechanism": mechanism}, 3.0, 1e-6, **options)
    assert broken(schema, run.to_arrow()) == [0] * 5
