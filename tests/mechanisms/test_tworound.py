"""The two-round mechanism: shares, compression, sizes, supports, constraints, choices without a
recipe, bad recipes."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.mechanisms.tworound.two_round import Marginal
from fastdp.schema import Schema
from fastdp.tables.table import Table


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


def test_values_under_the_threshold_are_merged_before_round_2():
    run = synth(small(), round2=[["a", "b"], ["b", "c"]], keep=["b"])
    release = run.privacy["parts"][0]["releases"][5]
    assert release["attributes"] == ["b", "c"]
    size = release["recoded"]["c"]
    assert 5 <= size <= 8 and release["count"] == 5 * size
    assert run.model.domain["c"] == size and "b" not in run.privacy["mechanism"]["compressed_to"]
    codes = run.tables["codes"].filter(pc.equal(run.tables["codes"]["column"], "c"))
    assert codes.num_rows == 60


def test_bins_of_a_marginal_begin_at_its_edges():
    query = Marginal(clique=("a", "b"), edges={"b": (0, 2, 5)}).query(Domain({"a": 2, "b": 7}))
    counts = np.arange(14).reshape(2, 7)
    sums = [[row[:2].sum(), row[2:5].sum(), row[5:].sum()] for row in counts]
    assert query.product(counts.ravel()).tolist() == np.ravel(sums).tolist()


def test_edges_beyond_the_codes_of_the_column_are_refused():
    with pytest.raises(UsageError, match="has 5 codes"):
        synth(small(), round2=[{"clique": ["a", "b"], "edges": {"b": (0, 5)}}], keep=["b"])


def test_a_marginal_over_the_limit_is_left_out_and_said():
    run = synth(small(), round2=[["a", "b"], ["a", "b", "c"]], max_marginal=100, threshold=0)
    assert run.privacy["mechanism"]["left_out"] == [["a", "b", "c"]]
    assert any("a, b, c: " in note and "more than 100" in note for note in run.privacy["notes"])
    assert run.privacy["mechanism"]["round2"] == [["a", "b"]]


def test_without_a_list_the_choice_is_charged():
    run = fastdp.synthesize(small(20_000), "tworound", 3.0, 1e-9, seed=1, sample_seed=1)
    releases = run.privacy["parts"][0]["releases"]
    selections = [r for r in releases if r["kind"] == "select"]
    assert len(selections) == 3 and all(r["event"]["law"] == "bounded-range" for r in selections)
    assert len(run.privacy["mechanism"]["round2"]) == 3
    b, c = (run.data[n].to_numpy() for n in "bc")
    assert (c == 7 * b).mean() > 0.8


def people(rows=3000, seed=0):
    """General and detailed codes, a city of one of two states, and values listed that never
    occur."""
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
        n: {
            "kind": "categorical",
            "dtype": "int64",
            "values": v,
            "null": "drop",
            "overflow": "drop",
        }
        for n, v in listed.items()
    }
    return table, Schema.from_dict({"name": "people", "columns": columns}), listed


RULES = {
    "round2": [["general", "detailed"], ["detailed", "city"]],
    "constraints": [{"columns": ["general", "detailed"], "divide": 100}],
    "regions": [
        {"column": "city", "always": [0], "groups": {"east": [11, 12, 13], "west": [21, 22, 23]}}
    ],
}


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_constraints_and_supports_hold_in_every_row(epsilon):
    table, schema, listed = people()
    options = {"schema": schema, "seed": 2, "sample_seed": 1, "rows": 5000}
    run = fastdp.synthesize(table, {"mechanism": "tworound", **RULES}, epsilon, 1e-9, **options)
    columns = {n: run.data[n].to_numpy() for n in listed}
    assert all(set(np.unique(columns[n])) <= set(listed[n]) for n in listed)
    assert (columns["general"] == columns["detailed"] // 100).all()
    state = run.privacy["mechanism"]["inferred"]["city"]
    assert set(np.unique(columns["city"])) <= {0, *RULES["regions"][0]["groups"][state]}
    if epsilon > 0.1:
        assert state == "east"
