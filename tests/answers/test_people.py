"""Answers about users: exact where nothing is noise, and of all releases that say something."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.people_facts import asks_about_users, described_facts, people_facts
from fastdp.answers.values import numbers_of
from fastdp.engines.local import local
from fastdp.errors import UsageError
from fastdp.measurement import Measurement
from fastdp.privacy.clip import size_edges
from fastdp.user_views import UserFacts
from fastdp.userkeys import RowsPerUser
from fastdp.users.user_table import octaves, whole_numbers

WHOLE = {"kind": "integer", "dtype": "int64", "min": 0}
SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "order": "month", "amounts": ["paid"], "max_rows": 40},
        "columns": {
            "month": {**WHOLE, "max": 9},
            "land": {**WHOLE, "max": 3},
            "paid": {
                "kind": "numeric",
                "dtype": "float64",
                "edges": [0, 2, 4, 8, 16],
                "null": "drop",
            },
        },
    }
)
GROUP = "rows per user"


def purchases(users=300, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(users), np.minimum(rng.geometric(0.3, users), 40))
    month = np.minimum(rng.integers(0, 6, users)[who] + rng.geometric(0.5, len(who)), 9)
    land = rng.integers(0, 4, users)[who]
    return pa.table(
        {"who": who, "month": month, "land": land, "paid": rng.choice([1, 3, 6], len(who))}
    )


def released(table, noise=1e-6):
    """What a run would release of its users, with hardly any noise: the table about users, of which
    some codes were counted together, and the histogram of rows."""
    middle = numbers_of(SCHEMA.columns["paid"]).middle
    numbers = whole_numbers(middle)
    facts = (
        ("first month", "first", "month", (5,), ()),
        ("active month", "active", "month", (12,), (2, 3)),
        ("sum paid", "sum", "paid", numbers, tuple(octaves(numbers, max(numbers) * 40))),
        ("constant land", "constant", "land", (), ()),
    )
    view = UserFacts((1, 2, 3, 4, 8), GROUP, facts)
    engine = local(fastdp.read(table, SCHEMA), 1)
    sizes = dict(SCHEMA.modelled)
    merged = {"constant land": np.minimum(np.arange(sizes["land"]), 3)}
    pairs = [("first month", GROUP), ("sum paid",), ("constant land", "active month"), (GROUP,)]
    counted = engine.marginals(pairs, 1, view=view, recode=merged)
    given = [Measurement(c, counted[c].reshape(-1) / 2**20, noise, label="1-ways") for c in pairs]
    edges = size_edges(40)
    histogram = engine.user_histogram(RowsPerUser(edges), 1).astype(float)
    given.append(Measurement(("users by RowsPerUser",), histogram, noise, label=GROUP))
    listed = described_facts(facts, (GROUP, view.edges), sizes, 40, {"paid": middle}, merged)
    return {"mechanism": {"users": {"people": listed}}}, given


@pytest.fixture(scope="module")
def known():
    table = purchases()
    frame = table.to_pandas()
    middle = {1: 1.0, 3: 3.0, 6: 6.0}
    frame["middle"] = frame["paid"].map(middle)
    people = frame.groupby("who").agg(
        rows=("month", "size"),
        first=("month", "min"),
        sum=("middle", "sum"),
        land=("land", "first"),
        active=("month", "nunique"),
    )
    return people, people_facts(*released(table)[:1], SCHEMA, released(table)[1], {})


def test_answers_are_those_of_the_true_users(known):
    people, facts = known

    def one(of, where=None):
        found = answer(facts, of, (), where)
        low, high = found["low"][0].as_py(), found["high"][0].as_py()
        assert low <= found["estimate"][0].as_py() <= high
        return found["estimate"][0].as_py(), found["basis"][0].as_py()

    assert one("count") == (pytest.approx(len(people), abs=0.01), "measured")
    for low, high in ((2, None), (3, 4), (1, 2), (8, None), (24, None)):
        share = people.rows.between(low, (high or 99) - 1).mean()
        assert one("share", {"rows": (low, high)}) == (pytest.approx(share, abs=1e-4), "measured")
    late = (people["first"] >= 5) & (people.rows >= 4)
    both = {"first(month)": range(5, 10), "rows": (4, None)}
    assert one("share", both)[0] == pytest.approx(late.mean(), abs=1e-4)
    rich = one("share", {"sum(paid)": (16, None)})[0]
    assert rich == pytest.approx((people["sum"] >= 16).mean(), abs=1e-4)
    active = one("share", {"active(month)": (3, None), "land": 1})[0]
    assert active == pytest.approx(((people.active >= 3) & (people.land == 1)).mean(), abs=1e-4)
    assert one("mean(active(month))")[1] in ("measured", "approximate")


def test_groups_are_periods_and_codes_that_were_counted_together_are_said(known):
    people, facts = known
    by_land = answer(facts, "share", "land").to_pandas()
    assert np.allclose(
        by_land.estimate[:3], people.land.value_counts(normalize=True).sort_index()[:3]
    )
    assert "counted together" in by_land.note[3]
    begun = answer(facts, "count", "first(month)").to_pandas()
    assert "counted together with 2 other values" in begun.note[0]  # 12 codes, five periods
    assert begun.high[0] == pytest.approx((people["first"] < 3).sum(), abs=0.1)


def test_unmeasured_pairs_have_no_interval_and_unknown_facts_are_refused(known):
    _, facts = known
    unknown = answer(facts, "share", (), {"first(month)": 1, "sum(paid)": (4, 8)})
    assert unknown["basis"][0].as_py() == "unknown" and unknown["low"][0].as_py() is None
    with pytest.raises(UsageError, match=r"no column 'last\(month\)'"):
        answer(facts, "share", "last(month)")
    with pytest.raises(UsageError, match="released nothing about its users"):
        people_facts({}, SCHEMA, [], {})


def test_a_bound_that_the_run_found_limits_no_user():
    """Users with more rows are in the last bin, and counted as the bound they gave means whose intervals
    held in 3 of 10 runs."""
    statement, given = released(purchases())
    statement["schema"] = {"found": {"max_rows": 40}}
    facts = people_facts(statement, SCHEMA, given, {})
    assert answer(facts, "count", "rows")["rows"][-1].as_py().endswith("inf)")
    mean = answer(facts, "mean(rows)").to_pylist()[0]
    assert mean["low"] is None and "set `max_rows` in the schema" in mean["note"]


def test_histograms_alone_answer_questions_about_rows():
    table = purchases(seed=3)
    rows = np.bincount(table["who"].to_numpy())
    only = [m for m in released(table)[1] if m.clique == ("users by RowsPerUser",)]
    facts = people_facts({}, SCHEMA, only, {})
    found = answer(facts, "share", (), {"rows": (4, None)})
    assert found["estimate"][0].as_py() == pytest.approx((rows >= 4).mean(), abs=1e-4)


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        ("share of users", "share"),
        ("mean(sum(paid)) per user", "mean(sum(paid))"),
        (" count  of  users ", "count"),
        ("count", None),
        ("mean(users)", None),
        (3, None),
    ],
)
def test_questions_about_users_are_told_from_those_about_rows(of, asked):
    assert asks_about_users(of) == asked
