"""The rule that divides a budget, and divisions of whole runs."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import fastdp
from fastdp import division
from fastdp.mechanisms import names
from tests.builders import schema_with_users

WEIGHTS = st.floats(0.02, 50)
POWERS = st.sampled_from([division.ERROR, division.VARIANCE])


@given(st.lists(st.floats(0.01, 1e4), min_size=2, max_size=6), POWERS)
def test_no_other_shares_do_less_harm(harms, power):
    """Against a hundred other divisions, near and far. The planted bug, shares in proportion to the
    harm, does more of it."""
    best = np.array(list(division.best_shares(dict(enumerate(harms)), power).values()))
    given_harms = np.array(harms)

    def harm(shares):
        return float((given_harms * shares**-power).sum())

    rng = np.random.default_rng(1)
    assert math.isclose(best.sum(), 1)
    for size in (0.01, 0.1, 1.0, 10.0):
        others = best * np.exp(size * rng.normal(size=(25, len(harms))))
        others /= others.sum(axis=1, keepdims=True)
        assert all(harm(best) <= harm(other) * (1 + 1e-9) for other in others)
    assert harm(best) <= harm(given_harms / given_harms.sum()) * (1 + 1e-9)


@given(st.floats(0.001, 0.9), WEIGHTS, POWERS)
def test_a_declared_share_moves_as_the_rule_says(share, weight, power):
    """A share that is the best one for some harm, and that harm times the weight."""
    harms = {"it": share ** (1 + power), "rest": (1 - share) ** (1 + power)}
    assert math.isclose(division.best_shares(harms, power)["it"], share, rel_tol=1e-9)
    harms["it"] *= weight
    moved = division.share_for_weight(share, weight, power)
    assert math.isclose(moved, division.best_shares(harms, power)["it"], rel_tol=1e-9)
    assert (moved > share) == (weight > 1) or weight == 1
    assert division.share_for_weight(share, 1.0, power) == share


@given(st.lists(st.floats(0.5, 2e3), min_size=3, max_size=3), st.integers(0, 2))
def test_shares_on_a_grid_are_the_best_ones_but_for_its_grain(harms, absent):
    """Errors of a known power, whose best shares have a formula. What takes no part gets nothing. The
    planted bug, even shares, is found where one harm is a hundred times another."""
    part = [i != absent for i in range(3)]
    there = {i: harm for i, harm in enumerate(harms) if part[i]}

    def error(*shares):
        return sum(
            harm / math.sqrt(shares[i]) if shares[i] else math.inf for i, harm in there.items()
        )

    found = division.least_error(error, part)
    best = division.best_shares(there)
    assert math.isclose(sum(found), 1) and found[absent] == 0
    least = 1 / division.STEPS
    for i, share in best.items():
        assert abs(found[i] - max(share, least)) <= least


def test_a_declared_portion_is_the_best_share_of_its_error():
    releases = [division.Release(f"r{i}", portion) for i, portion in enumerate((0.2, 0.5, 2.0))]
    unit = division.each_unit(releases, 1.0, 0.3)
    shares = [unit * r.portion for r in releases]
    assert math.isclose(sum(shares), 0.3)
    least = sum(r.error(w) for r, w in zip(releases, shares))
    for i, j in ((0, 1), (1, 2), (2, 0)):
        moved = [*shares]
        moved[i] += 0.01
        moved[j] -= 0.01
        assert sum(r.error(w) for r, w in zip(releases, moved)) > least
    assert division.each_unit(releases, 0.03, 0.3) == 0.03


NEEDS = {
    "aim": {"rounds": 4},
    "adagrid": {"outer": [["a", "b"], ["b", "c"]]},
    "tworound": {"round2": [["a", "b"]]},
}


@pytest.mark.parametrize("name", [n for n in names() if n not in ("usercounts", "archetypes")])
def test_the_division_of_a_plan_is_whole_and_has_reasons(name):
    schema = schema_with_users({"a": 12, "b": 9, "c": 3}, "who", max_rows=20)
    asked = {"users": 5_000, "numbers": ["count of users"]}
    for more in ({}, asked):
        plan = fastdp.plan(
            schema, {"mechanism": name} | NEEDS.get(name, {}), 1.0, 1e-6, rows=50_000, **more
        )
        assert math.isclose(sum(part.share for part in plan.division), 1, rel_tol=1e-9)
        assert all(part.share > 0 and part.why for part in plan.division)
        shown = str(plan)
        assert all(part.what in shown and part.why in shown for part in plan.division)


def test_every_declared_step_has_its_own_reason():
    """The planted bug: a step of the default mechanism, or of users, whose label nobody explains."""
    schema = schema_with_users({"a": 12, "b": 9, "c": 3}, "who", max_rows=20)
    plan = fastdp.plan(schema, "cliquetree", 1.0, 1e-6, rows=50_000)
    whys = [part.why for part in plan.division]
    assert division.BY_RECIPE not in whys and len(set(whys)) == len(whys)
