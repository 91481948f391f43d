"""The two-round mechanism: shares, compression, sizes, supports, constraints, choices without a recipe, bad
recipes."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.tworound.affordable_cliques import affordable, strongest
from fastdp.mechanisms.tworound.region import Region
from fastdp.mechanisms.tworound.two_round import TwoRound
from fastdp.model.junction_tree import junction_tree
from fastdp.schema import Schema
from fastdp.tables.table import Table

DELTA = 2.28e-12


def small(rows=4000, seed=0, sizes=None, public=False):
    """a determines b, b determines c, most codes of c never occur; d is alone."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    b = (a + (rng.random(rows) < 0.2)) % 5
    c = b * 7
    d = rng.integers(0, 3, rows)
    domain = sizes or {"a": 4, "b": 5, "c": 60, "d": 3}
    return Table.from_codes(domain, dict(zip("abcd", (a, b, c, d))), public=public)


def synth(table, epsilon=3.0, **fields):
    fields = {"mechanism": "tworound", **fields}
    return fastdp.synthesize(table, fields, epsilon, 1e-9, seed=1, sample_seed=1)


def test_both_rounds_have_sensitivity_1():
    run = synth(small(), round2=[["a", "b"], {"clique": ["b", "c"], "weight": 3}], weights={"a": 2})
    releases = run.privacy["parts"][0]["releases"]
    mu2 = [r["event"]["mu"] ** 2 for r in releases]
    ones, pairs = mu2[:4], mu2[4:]
    first, second = TwoRound().shares
    assert math.isclose(sum(ones) / first, sum(pairs) / second, rel_tol=1e-9)
    assert np.allclose(np.array(ones) / sum(ones), [4 / 7, 1 / 7, 1 / 7, 1 / 7])
    assert np.allclose(np.array(pairs) / sum(pairs), [0.1, 0.9])
    assert sum(mu2) <= run.privacy["mu"] ** 2


def test_values_under_the_threshold_are_merged_before_round_2():
    run = synth(small(), round2=[["a", "b"], ["b", "c"]], keep=["b"])
    release = run.privacy["parts"][0]["releases"][5]
    assert release["attributes"] == ["b", "c"]
    size = release["recoded"]["c"]
    assert 5 <= size <= 8 and release["count"] == 5 * size
    assert run.model.domain["c"] == size and "b" not in run.privacy["mechanism"]["compressed_to"]
    codes = run.tables["codes"].filter(pa.compute.equal(run.tables["codes"]["column"], "c"))
    assert codes.num_rows == 60


def test_synthetic_rows_look_like_the_data():
    table = small(20_000)
    run = synth(table, round2=[["a", "b"], ["b", "c"]])
    rows = run.data
    assert rows.num_rows == pytest.approx(20_000, abs=100)
    b, c = (rows[n].to_numpy() for n in "bc")
    assert (c == 7 * b).mean() > 0.97


def test_a_marginal_over_the_limit_is_left_out_and_said():
    run = synth(small(), round2=[["a", "b"], ["a", "b", "c"]], max_marginal=100, threshold=0)
    assert run.privacy["mechanism"]["left_out"] == [["a", "b", "c"]]
    assert any("a, b, c: " in note and "more than 100" in note for note in run.privacy["notes"])
    assert run.privacy["mechanism"]["round2"] == [["a", "b"]]


def test_marginals_go_by_the_size_of_the_junction_tree():
    """A cycle of large columns: each pair is small, but triangulation joins three of them."""
    domain = Domain({"a": 50, "b": 50, "c": 50, "d": 50, "e": 2})
    cycle = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "e")]
    assert junction_tree(domain, cycle).cells > 200_000
    kept, dropped = affordable(domain, cycle, 10_000, 10_000)
    assert len(dropped) == 1 and junction_tree(domain, kept).cells <= 10_000
    assert "10,000" in next(iter(dropped.values()))
    weight = dict.fromkeys(cycle, 1.0) | {("a", "b"): 0.1}
    assert list(affordable(domain, cycle, 10_000, 10_000, weight=weight)[1]) == [("a", "b")]
    # What is fixed stays, even where that is too much.
    kept, dropped = affordable(domain, cycle, 10_000, 10, fixed=[("a", "c")])
    assert kept == [] and len(dropped) == 5


def test_extra_pairs_as_long_as_the_model_stays_small():
    domain = Domain(dict.fromkeys("abcd", 10))
    strength = {
        ("a", "b"): 4.0,
        ("b", "c"): 3.0,
        ("c", "d"): 2.0,
        ("a", "c"): 1.0,
        ("a", "d"): 0.5,
        ("b", "d"): 0.0,
    }
    tree = [("a", "b"), ("b", "c"), ("c", "d")]
    assert strongest(domain, strength, 0, 10**6) == tree
    assert strongest(domain, strength, 5, 10**6) == [*tree, ("a", "c"), ("a", "d")]
    assert strongest(domain, strength, 5, 1500) == [*tree, ("a", "c")]


def test_without_a_recipe_public_data_chooses():
    run = fastdp.synthesize(
        small(20_000), "tworound", 1.0, 1e-9, public=small(5000, seed=9, public=True), seed=1, sample_seed=1
    )
    chosen = {frozenset(p) for p in run.privacy["mechanism"]["round2"]}
    # b decides c, so a and c hang together as much as a and b do: either makes a tree.
    assert {"b", "c"} in chosen and ({"a", "b"} in chosen or {"a", "c"} in chosen)
    kinds = {r["kind"] for r in run.privacy["parts"][0]["releases"]}
    assert kinds == {"marginal"}


def test_without_a_recipe_and_public_data_the_choice_is_charged():
    run = fastdp.synthesize(small(20_000), "tworound", 3.0, 1e-9, seed=1, sample_seed=1)
    releases = run.privacy["parts"][0]["releases"]
    selections = [r for r in releases if r["kind"] == "select"]
    assert len(selections) == 3 and all(r["event"]["law"] == "bounded-range" for r in selections)
    assert len(run.privacy["mechanism"]["round2"]) == 3
    b, c = (run.data[n].to_numpy() for n in "bc")
    assert (c == 7 * b).mean() > 0.8


def test_associations_are_mutual_information_less_chance():
    from fastdp.public.choice import mutual_information
    from fastdp.public.data import PublicTable

    table = small(5000, public=True)
    recode = {"c": (np.arange(60) > 10).astype(int)}
    associations = PublicTable(table).associations(recode)
    counts = fastdp.marginals(table, [("b", "c"), ("a", "d")], recode=recode)
    assert associations["b", "c"] == pytest.approx(mutual_information(counts["b", "c"]) - 4 * 1 / 10_000)
    # a and d are independent: chance explains what there is, up to its own spread (chi square with 6 degrees
    # of freedom).
    assert associations["a", "d"] < 40 / 10_000
    assert ("a", "c") not in PublicTable(table).associations(max_cells=100)


def test_one_row_per_person_or_weights_that_add_up_to_one():
    rng = np.random.default_rng(0)
    schema = Schema.from_domain({"a": 4, "b": 3}, user="who")
    codes = {"a": rng.integers(0, 4, 900), "b": rng.integers(0, 3, 900)}
    twice = Table.from_codes(schema, codes, user=np.arange(900) % 300)
    fields = {"mechanism": "tworound", "round2": [["a", "b"]], "clip": 1, "ids": {"source": "none"}}
    run = fastdp.synthesize(twice, fields, 8.0, 1e-9, seed=1, sample_seed=1)
    # 300 persons with three rows each weigh 300 rows in all; the total's standard error is about 2.
    assert run.model.total == pytest.approx(300, abs=15)
    assert all(r["sensitivity"] == 1 for r in run.privacy["parts"][0]["releases"])


def people(rows=3000, seed=0):
    """General and detailed codes, a city of one of two states, and values listed that never occur."""
    rng = np.random.default_rng(seed)
    detailed = rng.choice([100, 101, 200, 310], rows, p=[0.6, 0.3, 0.08, 0.02])
    city = rng.choice([0, 11, 12], rows, p=[0.5, 0.4, 0.1])
    table = pa.table({"general": detailed // 100, "detailed": detailed, "city": city})
    listed = {
        "general": list(range(1, 7)),
        "detailed": [100, 101, 150, 200, 250, 310, 320, 400, 510, 660],
        "city": [0, 11, 12, 13, 21, 22, 23],
    }
    columns = {
        n: {"kind": "categorical", "dtype": "int64", "values": v, "null": "drop", "overflow": "drop"}
        for n, v in listed.items()
    }
    return table, Schema.from_dict({"name": "people", "columns": columns}), listed


RULES = {
    "round2": [["general", "detailed"], ["detailed", "city"]],
    "constraints": [{"columns": ["general", "detailed"], "divide": 100}],
    "regions": [{"column": "city", "always": [0], "groups": {"east": [11, 12, 13], "west": [21, 22, 23]}}],
}


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_constraints_and_supports_hold_in_every_row(epsilon):
    table, schema, listed = people()
    run = fastdp.synthesize(
        table,
        {"mechanism": "tworound", **RULES},
        epsilon,
        1e-9,
        schema=schema,
        seed=2,
        sample_seed=1,
        rows=5000,
    )
    columns = {n: run.data[n].to_numpy() for n in listed}
    assert all(set(np.unique(columns[n])) <= set(listed[n]) for n in listed)
    assert (columns["general"] == columns["detailed"] // 100).all()
    state = run.privacy["mechanism"]["inferred"]["city"]
    assert set(np.unique(columns["city"])) <= {0, *RULES["regions"][0]["groups"][state]}
    if epsilon > 0.1:
        assert state == "east"


def test_the_state_is_the_one_whose_total_stands_out():
    _, schema, _ = people(1)
    region = Region(column="city", groups={"east": (11, 12, 13), "west": (21, 22, 23)}, always=(0,))
    values = [900.0, 30.0, 5.0, -8.0, 25.0, -20.0, 1.0]
    state, outside = region.infer(schema, Measurement(("city",), values, 10.0))
    assert state == "east" and outside.tolist() == [False] * 4 + [True] * 3


@pytest.mark.slow
def test_a_small_census_from_end_to_end(tmp_path):
    table = fastdp.simulate.census(4000, seed=3, state="Ohio")
    run = fastdp.synthesize(table, "census-tworound", 8.0, DELTA, sample_seed=1, out=tmp_path / "run")
    assert run.privacy["mechanism"]["inferred"] == {"CITY": "Ohio"}
    assert fastdp.verify(tmp_path / "run")
    made = run.data
    assert made.column_names == table.column_names
    for general, detailed, divide in (("RACE", "RACED", 100), ("EDUC", "EDUCD", 10), ("BPL", "BPLD", 100)):
        assert (made[general].to_numpy() == made[detailed].to_numpy() // divide).all()
    again = fastdp.read(made, Schema.load("census1940"), public=True)
    assert again.rows == made.num_rows  # the schema drops rows with values outside the public lists
    wage = made["INCWAGE"].to_numpy()
    assert ((wage <= 5001) | (wage == 999_998)).all()
