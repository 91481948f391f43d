"""Intervals hold their estimate, rows without a number count in no sum, and the noise of a heavy
tail does not decide a sum."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.facts import Facts
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import resolutions
from fastdp.mechanisms.cliquetree.value_grouping import grouped
from fastdp.mechanisms.shared.code_compression import merge_classes, merge_rare, numberless
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.privacy.clip import size_edges

EDGES = [0, 1, 2, 4, 8, 16, 64, 1024, 2.0**20]
SCHEMA = fastdp.Schema.from_dict(
    {
        "columns": {
            "g": {"kind": "integer", "min": 0, "max": 2, "null": "drop", "overflow": "drop"},
            "x": {"kind": "numeric", "dtype": "float64", "edges": EDGES},
            "s": {"kind": "numeric", "dtype": "float64", "edges": [-50, -3, 0, 7, 90]},
        },
        "user": {"column": "id", "max_rows": 64},
    }
)
ROWS = {"unit": {"kind": "event"}}
"""The statement of a run that protects rows, so that none were left out."""
SIZES = dict(SCHEMA.modelled)
QUESTIONS = ("count", "share", "sum(x)", "mean(x)", "sum(s)", "mean(s)")
WHERE = ({}, {"x": (3, 40)}, {"s": (-20, 50)}, {"x": [None]})


def numbers(size, largest=1e4):
    """Noisy counts that no table would give: negative, huge, all zero."""
    one = st.one_of(st.floats(-largest, largest), st.sampled_from([0.0, -1e-9, 1e9, -1e9]))
    return st.lists(one, min_size=size, max_size=size).map(np.array)


@st.composite
def hostile(draw):
    """Facts of a run: marginals over all codes or merged ones, with or without a clip."""
    sigma = draw(st.sampled_from([1e-3, 1.0, 50.0, 1e6]))
    ones = [Measurement((a,), draw(numbers(n)), sigma) for a, n in SIZES.items()]
    merged = draw(st.lists(st.integers(0, 3), min_size=SIZES["x"], max_size=SIZES["x"]))
    codes = np.unique(merged, return_inverse=True)[1]
    pair = draw(numbers(SIZES["g"] * (int(codes.max()) + 1)))
    tables = {}
    if codes.max() + 1 < codes.size:
        table = {"column": ["x"] * codes.size, "code": np.arange(codes.size), "compressed": codes}
        tables = {"codes": pa.table(table)}
    measured = [*ones, Measurement(("g", "x"), pair, sigma)]
    statement = {}
    if draw(st.booleans()):
        edges = size_edges(64)
        choice = {"users": draw(numbers(len(edges))).tolist(), "bound": 64, "sigma": sigma}
        statement = {"unit": {"kind": "user"}, "parts": [{"clip": 4, "clip_choice": choice}]}
    else:
        statement = ROWS
    return Facts.of(statement, SCHEMA, measured, tables, None)


@given(hostile(), st.sampled_from(QUESTIONS), st.sampled_from(["", "g"]), st.sampled_from(WHERE))
@settings(max_examples=30, deadline=None)
def test_every_interval_holds_its_estimate(facts, of, by, where):
    for population in (False, True):
        for line in answer(facts, of, by or (), where, population=population).to_pylist():
            if line["low"] is not None and line["estimate"] is not None:
                assert line["low"] <= line["estimate"] <= line["high"]
                assert line["error"] >= 0


def test_numbers_of_which_most_lie_beyond_the_bounds_found_have_no_interval():
    """Once, a column of which a run had found only the zeros had a mean of 4e-277, to three
    digits, and a note said that values beyond the bounds count as the nearest one."""
    column = {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2], "overflow": "clamp"}
    schema = fastdp.Schema.from_dict({"columns": {"x": column}})
    ones = [Measurement(("x",), np.array([900.0, 100.0, 0.0]), 5.0)]  # and rows without a number
    for share, said in ((0.6, False), (0.2, True)):
        statement = ROWS | {"schema": {"found": {"missing": {"x": [share, 0.01]}}}}
        facts = Facts.of(statement, schema, ones, {}, None)
        for question in ("mean(x)", "sum(x)"):
            told = answer(facts, question, (), {})
            (line,) = told.to_pylist()
            assert (line["low"] is not None) is said
            assert f"about {share:.0%} of the rows" in line["note"]
        counts = answer(facts, "count", ("x",), {}).to_pylist()
        assert {line["low"] is not None for line in counts} == {said}


def test_a_negative_count_in_the_tail_leaves_an_interval():
    """Once, `sum(amount)` was 408,859 with an interval from 0 to 0: the upper end put the negative
    rows of the last bin at its far end, a million."""
    rows = np.array([900.0, 800, 700, 600, 500, 400, 60, -40, 0, 100])
    facts = Facts.of(ROWS, SCHEMA, [Measurement(("x",), rows, 8.0)], {}, None)
    (line,) = answer(facts, "sum(x)").to_pylist()
    assert 0 < line["low"] < line["estimate"] < line["high"]
    assert line["high"] - line["estimate"] > 1.9 * 8 * 1024, "the noise of the last bin is in it"


@pytest.mark.parametrize("of", ["sum(x)", "mean(x)"])
def test_the_noise_of_a_heavy_tail_does_not_decide_a_number(of):
    """Five such means were .46, 1.36, .74, 1.41 and .07 of the truth: one row of noise in the bin
    of the largest numbers weighs more than a thousand rows."""
    rng = np.random.default_rng(5)
    found = []
    inside = 0
    for _ in range(60):
        x = np.minimum(rng.lognormal(1.0, 1.7, 9_000), 2.0**19)
        truth = x.sum() if of == "sum(x)" else x.mean()
        rows = np.append(np.histogram(x, EDGES)[0], [0, 900])
        noisy = rows + rng.normal(0, 40, rows.size)
        facts = Facts.of(ROWS, SCHEMA, [Measurement(("x",), noisy, 40.0)], {}, None)
        (line,) = answer(facts, of).to_pylist()
        found.append(line["estimate"] / truth)
        inside += line["low"] <= truth <= line["high"]
        assert "do not stand out" in line["note"]
    assert inside >= 54, "of 60 at 95 %"
    assert 0.5 < min(found) and max(found) < 3.5, "bins are even here; noise alone gave 0 to 900"


SHAPE = st.lists(st.floats(0, 1000), min_size=SIZES["x"], max_size=SIZES["x"]).map(np.array)
APART = numberless(SCHEMA.columns["x"])


def apart(codes):
    """Whether no group of codes holds numbers and rows without one."""
    return not set(codes[APART]) & set(codes[~APART])


@given(SHAPE, st.floats(0.1, 300), st.integers(2, 12))
@settings(max_examples=30, deadline=None)
def test_rows_without_a_number_share_no_group_with_numbers(rows, sigma, count):
    """The planted bug: without the schema they share the code of rare values."""
    one = Measurement(("x",), rows, sigma)
    assert apart(merge_rare(one, 3.0, merge_classes(SCHEMA, {}, "x")))
    domain = Domain({"x": SIZES["x"], "g": SIZES["g"]})
    other = Measurement(("g",), np.full(SIZES["g"], rows.sum() / 3), sigma)
    merged = merge(domain, [one, other], 3.0, schema=SCHEMA)
    own = merged.compression.code_map("x")
    assert apart(own)
    blank, alone = (f(merged, SCHEMA) for f in (resolutions.blank_codes, resolutions.ordered))
    assert not blank["x"][own[~APART]].any() and blank["x"][own[APART]].all()
    groups = resolutions.neighbour_groups(merged.ones_shape["x"], alone["x"], count, blank["x"])
    assert apart(groups[own])
    ones = merged.ones_shape
    values = grouped(("x", "g"), merged.domain, [ones["x"], ones["g"]], ones, sigma, blank)
    assert "x" not in values.maps or apart(values.maps["x"][own])


def test_without_the_schema_rare_nulls_join_rare_numbers():
    rows = np.array([900.0, 800, 700, 600, 500, 400, 1, 2, 0, 1])
    merged = merge(Domain({"x": SIZES["x"]}), [Measurement(("x",), rows, 10.0)], 3.0)
    assert not apart(merged.compression.code_map("x"))


def test_nulls_inside_a_group_of_numbers_widen_a_sum():
    """Folders of earlier runs have such groups: 500 nulls were counted there as numbers of the last
    bin, and every sum missed."""
    ones = Measurement(("x",), np.array([900.0, 800, 700, 600, 500, 400, 60, 0, 0, 500]), 1.0)
    codes = np.array([0, 1, 2, 3, 4, 5, 6, 6, 6, 6])
    table = pa.table({"column": ["x"] * 10, "code": np.arange(10), "compressed": codes})
    pair = np.tile(np.bincount(codes, ones.values) / 3, (3, 1))
    measured = [ones, Measurement(("g", "x"), pair.reshape(-1), 1.0)]
    facts = Facts.of(ROWS, SCHEMA, measured, {"codes": table}, None)
    middles = np.array([0.5, 1.5, 3, 6, 12, 40, 544])
    truth = float(ones.values[:7] @ middles) / 3
    for line in answer(facts, "sum(x)", "g").to_pylist():
        assert line["low"] < truth < line["high"] and "counted together" in line["note"]
        assert line["estimate"] == pytest.approx(truth, rel=0.05)
    every = float(ones.values[:7].sum()) / 3
    for line in answer(facts, "mean(x)", "g").to_pylist():
        assert line["low"] < truth / every < line["high"]
        assert line["estimate"] == pytest.approx(truth / every, rel=0.05)


def test_the_number_of_rows_tells_what_was_seen_from_what_was_not():
    """A tenth of the rows are of users too few to be seen: the count of rows up to so many per user
    holds its truth, and the tail stands beside it. Other questions keep their columns."""
    rng = np.random.default_rng(8)
    edges = size_edges(1024)
    inside = 0
    beyond = []
    for _ in range(20):
        rows = np.minimum(np.ceil(3 * rng.pareto(1.4, 6000)) + 1, 1024).astype(np.int64)
        users = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
        noisy = (users + rng.normal(0, 26, len(edges))).tolist()
        choice = {"users": noisy, "bound": 1024, "sigma": 26.0}
        statement = {"unit": {"kind": "user"}, "parts": [{"clip": 8, "clip_choice": choice}]}
        kept = float(np.minimum(rows, 8).sum())
        ones = [Measurement(("g",), np.full(3, kept / 3), 8.0)]
        facts = Facts.of(statement, USERS, ones, {}, None)
        (line,) = answer(facts, "count").to_pylist()
        most = line["up_to"]
        truth = np.minimum(rows, most).sum()
        inside += line["rows_up_to_low"] <= truth <= line["rows_up_to_high"]
        told = f"of each user the first {most:,}: {line['rows_up_to_low']:,.0f} to "
        assert line["note"].startswith(told) and f"up to {line['beyond_high']:,.0f}" in line["note"]
        beyond.append((line["beyond"], rows.sum() - truth, line["beyond_high"]))
        wide = answer(facts, "count", level=0.999).to_pylist()[0]
        assert wide["rows_up_to_low"] < line["rows_up_to_low"]
    assert inside >= 17, "of 20 at 95 %"
    low, true, high = np.median(beyond, axis=0)
    assert 0 < true < high and low < 3 * true
    assert "up_to" not in answer(facts, "count", "g").column_names
    assert "up_to" not in answer(facts, "share").column_names
    assert "of each user the first" not in answer(facts, "share").column("note")[0].as_py()


USERS = fastdp.Schema.from_dict(
    {
        "columns": {
            "g": {"kind": "integer", "min": 0, "max": 2, "null": "drop", "overflow": "drop"}
        },
        "user": {"column": "id", "max_rows": 1024},
    }
)


def test_an_interval_that_noise_puts_below_zero_keeps_its_width():
    """A value whose noisy count is -45 at a standard error of 20 may have rows: its upper end is not 0."""
    ones = [Measurement("g", np.array([500.0, -45.0, -10.0]), 20.0)]
    rest = [Measurement(a, np.full(n, 455.0 / n), 20.0) for a, n in SIZES.items() if a != "g"]
    facts = Facts.of(ROWS, SCHEMA, [*ones, *rest], {}, None)
    found = answer(facts, "count", ("g",)).to_pydict()
    assert found["estimate"][1:] == [0.0, 0.0]
    assert found["low"][1:] == [0.0, 0.0]
    assert found["high"][1] == pytest.approx(found["high"][2], rel=1e-9)
    assert found["high"][1] > 1.9 * 20 * np.sqrt(2 / 3)
