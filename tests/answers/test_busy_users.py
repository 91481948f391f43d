"""Numbers of users whose rows a clip leaves out, and who differ from others also among the busy ones."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.clipping import _Factors
from fastdp.answers.facts import Facts
from fastdp.measurement import Measurement
from fastdp.rows_per_user import size_edges

CLIP = 4
BOUND = 512
GROUPS = (1, 9)
VALUES = 12
STATED = {"unit": {"kind": "user"}, "mechanism": {"users": {"row_groups": list(GROUPS)}}}


def users_schema(**further):
    sizes = {"a": VALUES} | further
    plain = fastdp.Schema.from_domain(sizes, user="uid").to_plain()
    plain["user"] = {"column": "uid", "max_rows": BOUND}
    return fastdp.Schema.from_dict(plain)


def busy_buyers(rise):
    """(rows of each user, number of each row, user of each row): half of the users have few rows, the
    others 9 to 512, and their numbers are larger by `rise` for each doubling of rows."""
    rng = np.random.default_rng(5)
    many = np.round(2 ** rng.uniform(3.2, 9.0, 2000)).astype(int)
    rows = np.concatenate([rng.integers(1, 9, 2000), many])
    user = np.repeat(np.arange(len(rows)), rows)
    level = 3 + rise * (np.log2(rows) - 2)[user]
    return rows, np.clip(np.round(rng.normal(level, 1.5)), 0, VALUES - 1).astype(int), user


def facts_of(rows, number, user):
    """What a run without noise to speak of would release: rows per user, and numbers by group of
    users."""
    edges = size_edges(BOUND)
    users = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
    choice = {"users": users.tolist(), "bound": BOUND, "sigma": 0.5}
    statement = STATED | {"parts": [{"clip": CLIP, "clip_choice": choice}]}
    weight = np.minimum(1, CLIP / rows)[user]
    group = np.searchsorted(GROUPS, rows, "right")[user] - 1
    pair = np.bincount(number * 2 + group, weight, 2 * VALUES)
    measured = Measurement(("a", "group"), pair, 1.0)
    alone = Measurement(("a",), pair.reshape(-1, 2).sum(1), 1.0)
    model = fastdp.fit({"a": VALUES, "group": 2}, [measured])
    return Facts.of(statement, users_schema(), [alone, measured], {}, model)


@pytest.mark.parametrize("rise", [0.0, 0.6])
def test_means_hold_where_the_busiest_users_differ_from_busy_ones(rise):
    """Groups of users say how busy users differ from others. The busiest have more rows left out than
    the other busy ones, and differ from these as well."""
    rows, number, user = busy_buyers(rise)
    facts = facts_of(rows, number, user)
    (mean,), (total,) = (answer(facts, f"{k}(a)").to_pylist() for k in ("mean", "sum"))
    assert mean["low"] <= number.mean() <= mean["high"]
    assert total["low"] <= number.sum() <= total["high"]
    # The bug that was: inside a group users count as alike, and nothing allows for more.
    plain = _Factors.of(np.array(GROUPS), *map(np.array, _sizes(rows)), CLIP).of_groups
    clipping = dataclasses.replace(facts.clipping, factors=tuple(plain), drifts={})
    without = dataclasses.replace(facts, clipping=clipping, _tables={})
    (before,) = answer(without, "mean(a)").to_pylist()
    if rise:
        assert before["high"] < number.mean(), "or this tests nothing"
        assert abs(mean["estimate"] - number.mean()) < 0.7 * abs(before["estimate"] - number.mean())
    else:
        assert mean["estimate"] == pytest.approx(before["estimate"], rel=0.01)
        assert mean["high"] - mean["low"] < 1.5 * (before["high"] - before["low"]), (
            "who does not differ costs little"
        )


def test_rare_values_that_were_put_together_lie_where_their_own_counts_say():
    """Measurements of pairs put rare values together, small and large ones. Where the rows of each were
    counted is known from the column alone; as one bin from the least to the largest, they would hide
    all others inside of it."""
    count = np.array([4.0, 9, 20, 500, 900, 700, 300, 60, 40, 20, 9, 5])
    codes = np.array([3, 3, 3, 0, 1, 1, 2, 3, 3, 3, 3, 3])
    by = np.outer(np.bincount(codes, count), [0.4, 0.6]).reshape(-1)
    schema = fastdp.Schema.from_domain({"a": VALUES, "by": 2})
    ones = [Measurement(("a",), count, 1.0), Measurement(("a", "by"), by, 1.0)]
    merged = pa.table({"column": ["a"] * VALUES, "code": range(VALUES), "compressed": codes})
    facts = Facts.of({}, schema, ones, {"codes": merged}, None)
    for line in answer(facts, "mean(a)", "by").to_pylist():
        assert line["estimate"] == pytest.approx(count @ np.arange(VALUES) / count.sum(), rel=0.02)


def test_contrasts_with_groups_of_users_say_which_columns_the_groups_are_known_for():
    """Tables of two values release contrasts, also with the column that tells busy users from others.
    It is no column of the table, so answers about rows have the other contrasts alone."""
    schema = fastdp.Schema.from_domain({"a": 2, "b": 2})
    ones = [Measurement((name,), np.array([60.0, 40.0]), 1.0) for name in "ab"]
    sets = [["a"], ["a", "b"], ["a", "group"]]
    released = {"columns": sets, "contrast": [20.0, 30.0, 5.0], "standard_error": [1.0] * 3}
    facts = Facts.of({}, schema, ones, {"contrasts": pa.table(released)}, None)
    assert set(facts.contrasts) == {frozenset("a"), frozenset("ab")}
    assert facts.clipping.apart == {"a"}
    (both,) = answer(facts, "count", where={"a": 0, "b": 0}).to_pylist()
    # (rows + contrast of a + of b + of both) / 4, with all of them about as precise
    assert both["basis"] == "measured"
    assert both["estimate"] == pytest.approx((100 + 20 + 20 + 30) / 4, abs=0.5)


def _sizes(rows):
    users = np.bincount(rows)
    there = np.flatnonzero(users)
    return there.astype(float), users[there].astype(float)
