"""Completed rows agree with `model.marginal`: private domains, users, bins, constraints, sets, ranges.

Shares are compared within five standard errors: below 1e-6 a comparison.
"""

import numpy as np
import pyarrow as pa
import pytest

import fastdp

ROWS = 12_000
MADE = 20_000


@pytest.fixture(scope="module")
def run():
    """Users with four rows each; domains of town and spent are found privately; paid >= spent."""
    rng = np.random.default_rng(3)
    town = rng.choice(["Rome", "Oslo", "Bern"], ROWS, p=[0.5, 0.3, 0.2])
    spent = np.round(rng.gamma(2.0, 10.0, ROWS) * (1 + (town == "Oslo")), 2)
    table = pa.table(
        {
            "who": np.arange(ROWS) // 4,
            "town": town,
            "spent": spent,
            "paid": np.round(spent + rng.uniform(0, 4, ROWS), 2),
            "kind": np.where(rng.random(ROWS) < 0.2 + 0.5 * (town == "Oslo"), 1, 0),
        }
    )
    edges = [0, 10, 20, 40, 80, 400]
    schema = fastdp.Schema.from_dict(
        {
            "user": {"column": "who", "max_rows": 4},
            "columns": {
                "town": {"kind": "string", "domain": "private"},
                "spent": {"kind": "numeric", "dtype": "float64", "edges": edges, "digits": 2},
                "paid": {"kind": "numeric", "dtype": "float64", "edges": edges, "digits": 2},
                "kind": {"kind": "integer", "min": 0, "max": 1},
            },
            "constraints": [{"order": ["spent", "paid"]}],
        }
    )
    return fastdp.synthesize(table, "mst", 20.0, 1e-5, schema=schema, seed=1, sample_seed=2, clip=4)


def codes_of(run, rows):
    """Codes of the model, of rows as values."""
    found = fastdp.read(rows, run.schema, public=True).codes
    maps = run.model.merged
    return {a: maps[a][found[a]] if a in maps else found[a].astype(np.int64) for a in found}


def test_rows_given_one_value_follow_the_models_pairs(run):
    """A value of each column, against all other columns."""
    model = run.model
    for known in ("town", "kind", "spent"):
        given = run.data[known].drop_null()[0].as_py()
        made = run.complete({known: [given] * MADE}, seed=4, nulls="draw")
        codes = codes_of(run, made)
        own = int(codes[known][0])
        assert (codes[known] == own).all()
        for other in (a for a in model.domain if a != known and a in codes):
            pair = model.marginal((known, other))
            want = pair[own] / pair[own].sum()
            found = np.bincount(codes[other], minlength=len(want)) / MADE
            allowed = 5 * np.sqrt(np.maximum(want, 1e-4) / MADE)
            assert (np.abs(found - want) <= allowed).all(), (known, other)
        spent, paid = (made[a].to_numpy().astype(float) for a in ("spent", "paid"))
        assert not (spent > paid).any()  # nulls are in no order


def test_rows_under_sets_and_ranges_follow_the_models_pairs(run):
    """A range that ends in the middle of a bin has half of it."""
    pair = run.model.marginal(("spent", "town"))
    made = codes_of(run, run.sample(MADE, seed=6, where={"spent": (0, 15)}))
    assert run.model.merged.get("spent", np.arange(7))[:3].tolist() == [0, 1, 2]
    weight = pair[0] + pair[1] / 2
    want = weight / weight.sum()
    found = np.bincount(made["town"], minlength=len(want)) / MADE
    assert (np.abs(found - want) <= 5 * np.sqrt(np.maximum(want, 1e-4) / MADE)).all()
    towns = ["Oslo", "Bern"]
    rows = run.sample(MADE, seed=6, where={"town": towns})
    assert set(rows["town"].to_pylist()) == set(towns)
    both = codes_of(run, rows)
    chosen = sorted(set(both["town"].tolist()))
    pair = run.model.marginal(("town", "kind"))[chosen].sum(axis=0)
    found = np.bincount(both["kind"], minlength=len(pair)) / MADE
    assert np.abs(found - pair / pair.sum()).max() <= 5 * np.sqrt(0.25 / MADE)


def test_rows_of_users_have_the_same_conditionals(run):
    """Two rows of each of 10,000 users: rows of one user agree, so that the standard error of their
    shares is up to sqrt(2) times as large."""
    users = np.repeat(np.arange(MADE // 2), 2)
    made = run.complete({"who": users, "town": ["Oslo"] * MADE}, seed=7, nulls="draw")
    codes = codes_of(run, made)
    own = int(codes["town"][0])
    pair = run.model.marginal(("town", "kind"))[own]
    found = np.bincount(codes["kind"], minlength=len(pair)) / MADE
    assert np.abs(found - pair / pair.sum()).max() <= 5 * np.sqrt(2 * 0.25 / MADE)
    assert made["who"].to_numpy().tolist() == users.tolist()
