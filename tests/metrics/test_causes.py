"""The error of synthetic rows divided among the steps of a run: parts add up, and an error that one
step made by itself is that step's."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.codec.decode import decode
from fastdp.metrics.causes import STEPS, Released
from fastdp.metrics.scores import score
from fastdp.schema import Schema

ROWS = 6000
OPTIONS = {"user": None, "k": 2, "marginals": 5, "target": None, "seed": 0, "threads": 1}
SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 50},
        "columns": {
            "town": {"kind": "categorical", "values": ["a", "b", "c"]},
            "paid": {"kind": "numeric", "edges": [0, 10, 100], "digits": 2},
            "way": {"kind": "integer", "min": 0, "max": 2},
        },
    }
)


def rows(outside=False, skewed=False, busy=False):
    """True rows on which nothing goes wrong but what is asked for."""
    rng = np.random.default_rng(5)
    town = rng.integers(0, 3, ROWS)
    who = np.arange(ROWS) // 2
    if busy:  # one user in ten has 20 rows, all of them in town c
        who = np.where(np.arange(ROWS) % 2, np.arange(ROWS), 10**6 + np.arange(ROWS) // 40)
        town = np.where(np.arange(ROWS) % 2, rng.integers(0, 2, ROWS), 2)
    names = np.array(["a", "b", "c"])[town]
    if outside:
        names = np.where(rng.random(ROWS) < 0.2, "elsewhere", names)
    paid = np.where(rng.random(ROWS) < 0.5, 10 * rng.random(ROWS), 10 + 90 * rng.random(ROWS))
    if skewed:
        paid = np.where(paid < 10, 1 + paid / 100, 99 - paid / 100)
    way = rng.integers(0, 3, ROWS)
    columns = {"who": who, "town": names, "paid": np.round(paid, 2), "way": way}
    return pa.table(columns)


def through_codes(truth, keep=None):
    """The rows after their codes: what a run without noise and with a perfect model makes."""
    table = fastdp.read(truth, SCHEMA, public=True)
    chosen = np.arange(table.rows) if keep is None else keep
    made = decode(SCHEMA, {n: c[chosen] for n, c in table.codes.items()}, 7)
    return made.append_column("who", [truth["who"].combine_chunks().take(chosen)])


def causes(truth, synthetic, clip=None):
    released = Released(None, clip)
    asked = ["original", "causes"]
    found = score(
        truth,
        synthetic,
        schema=SCHEMA,
        metrics=asked,
        reporting=True,
        fractions=(),
        options=OPTIONS,
        released=released,
    )
    for name, parts in found["causes"]["columns"].items():
        assert parts["wrong"] == pytest.approx(found["original"]["columns"][name], abs=1e-9)
        adds_up(parts)
    for parts in found["causes"]["pairs"]:
        adds_up(parts)
    return found["causes"]


def adds_up(parts):
    assert sum(parts[step] or 0.0 for step in STEPS) == pytest.approx(parts["wrong"], abs=1e-9)


def belongs_to(step, parts, wrong):
    """Two rows of chance in each cell of 20: what is left to the other steps is below 4 points."""
    assert parts["wrong"] == pytest.approx(wrong, abs=0.04)
    assert parts[step] == pytest.approx(parts["wrong"], abs=0.04)


def test_values_outside_the_list_are_the_domains():
    truth = rows(outside=True)
    found = causes(truth, through_codes(truth))
    belongs_to("domain", found["columns"]["town"], 0.2)
    pair = next(p for p in found["pairs"] if set(p["columns"]) == {"town", "way"})
    belongs_to("domain", pair, 0.2)


def test_numbers_that_crowd_in_their_bins_are_the_bins():
    truth = rows(skewed=True)
    found = causes(truth, through_codes(truth))
    assert found["columns"]["paid"]["wrong"] > 0.3
    belongs_to("bins", found["columns"]["paid"], found["columns"]["paid"]["wrong"])
    assert found["columns"]["paid"]["noise"] is None, "no run, so nothing says what was released"


def test_rows_that_the_clip_leaves_out_are_the_clips():
    truth = rows(busy=True)
    users = truth["who"].to_numpy()
    _, index, count = np.unique(users, return_inverse=True, return_counts=True)
    weight = np.minimum(1.0, 1 / count[index])
    rng = np.random.default_rng(1)
    kept = rng.choice(ROWS, ROWS, p=weight / weight.sum())
    found = causes(truth, through_codes(truth, kept), clip=1)
    assert found["columns"]["town"]["wrong"] > 0.3
    belongs_to("clip", found["columns"]["town"], found["columns"]["town"]["wrong"])
    unclipped = causes(truth, through_codes(truth, kept), clip=1000)
    belongs_to("model", unclipped["columns"]["town"], found["columns"]["town"]["wrong"])


def test_columns_that_lost_each_other_are_the_models():
    truth = rows()
    same = truth.set_column(3, "way", pa.array((truth["way"].to_numpy() * 0) + _town(truth)))
    made = through_codes(same)
    mixed = np.random.default_rng(2).permutation(made["way"].to_numpy())
    shuffled = made.set_column(made.column_names.index("way"), "way", pa.array(mixed))
    found = causes(same, shuffled)
    pair = next(p for p in found["pairs"] if set(p["columns"]) == {"town", "way"})
    belongs_to("model", pair, 2 / 3)


def _town(table):
    return np.searchsorted(["a", "b", "c"], table["town"].to_pylist())


def test_noise_of_a_run_is_told_from_its_model():
    """At a small epsilon on few rows nearly all of a single column's error is noise."""
    from fastdp.report.quotes import facts_of

    truth = rows().slice(0, 400)
    run = fastdp.synthesize(truth, "mst", epsilon=0.2, delta=1e-6, schema=SCHEMA, clip=2, seed=4)
    released = Released(facts_of(run, None), 2)
    found = score(
        truth,
        run.data,
        schema=SCHEMA,
        metrics=["causes"],
        reporting=True,
        fractions=(),
        options=OPTIONS,
        released=released,
    )["causes"]
    parts = max((p for n, p in found["columns"].items() if n != "paid"), key=lambda p: p["wrong"])
    adds_up(parts)
    assert parts["noise"] > 0.1 and parts["noise"] > 5 * abs(parts["domain"])


def test_rows_that_cannot_be_followed_have_no_parts():
    truth = rows()
    codes = fastdp.read(truth, SCHEMA, public=True)
    assert "causes" not in score(
        codes,
        through_codes(truth),
        schema=SCHEMA,
        metrics=None,
        reporting=True,
        fractions=(),
        options=OPTIONS,
        released=Released(),
    )
