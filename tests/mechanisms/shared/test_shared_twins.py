"""Weights of a workload, columns drawn given others and marginals of screened pairs, by their
definitions."""

import math
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp._util.disjoint import DisjointSets
from fastdp.division import SCREENING
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.limits.structural_zeros import StructuralZeros
from fastdp.mechanisms.shared import dependencies
from fastdp.mechanisms.shared.dependencies import (
    PAIR_CELLS,
    STRICT,
    Dependency,
    DependentColumns,
)
from fastdp.mechanisms.shared.screened_pairs import ScreenedPairs
from fastdp.mechanisms.shared.screening import AskedPairs, Candidate
from fastdp.mechanisms.shared.workload_weights import BASE, SPREAD, Workload, WorkloadItem
from fastdp.release.filtered_marginals import Filtered
from fastdp.schema.constraints import FOLLOW_CELLS

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 5, "e": 2})
ITEMS = st.lists(
    st.tuples(st.sets(st.sampled_from("abcde"), min_size=1), st.sampled_from([0.5, 1.0, 3.0])),
    max_size=5,
)


@given(ITEMS, st.sampled_from([None, *"abc"]))
def test_a_workload_weighs_sets_by_the_items_that_contain_them(items, target):
    load = Workload(DOMAIN, [WorkloadItem(columns=tuple(c), weight=w) for c, w in items], target)
    every = [*items, *(({target, b}, 1.0) for b in DOMAIN if target not in (None, b))]
    sets = [c for k in range(1, 6) for c in combinations(DOMAIN, k)]
    total = sum(w for _, w in every)
    for c in sets:
        inside = sum(w for s, w in every if s.issuperset(c)) + (len(c) >= 3 and target in c)
        assert load.weight(c) == pytest.approx(BASE + (1 - BASE) * inside / total if every else 1.0)
    larger = load.larger(DOMAIN)
    inside = {c for c in sets if len(c) > 2 and any(s.issuperset(c) for s, _ in items)}
    assert set(larger) == inside | {c for c in sets if len(c) == 3 and target in c}
    assert (np.diff([load.weight(c) for c in larger]) <= 1e-12).all()
    for a, others in load.spread().items():
        beside = {b for s, _ in every if a in s for b in s} - {a}
        assert set(others) <= beside and len(others) == min(SPREAD, len(beside))
        least = min((load.weight((a, b)) for b in others), default=0)
        assert all(load.weight((a, b)) <= least + 1e-12 for b in beside - set(others))


def test_expected_errors_are_those_of_the_best_marginal_that_contains_the_item():
    """Noise of 4 rows in each of 6 cells is one of 4 sqrt(3) in each of the 2 values that they add
    up to, and a Gaussian has a mean size of sqrt(2 / pi): measured twice, the smaller error counts.
    """
    model = SimpleNamespace(domain=DOMAIN, marginal=lambda c: np.full(DOMAIN.cells(c), 1e4))
    model.errors = {
        ("a", "b"): np.full(6, 4.0),
        ("a", "d"): np.full(10, 9.0),
        ("a", "e"): np.full(4, np.inf),
    }
    found = Workload(DOMAIN, [("a",), ("a", "c")]).workload_errors(
        model, 500.0, {("a",): (60.0, 20.0)}
    )
    wanted = 2 * 4 * math.sqrt(3) * math.sqrt(2 / math.pi) / 2 / 500
    assert found[0]["expected_error"] == pytest.approx(wanted, rel=0.02)
    assert (found[0]["distance"], found[0]["distance_error"]) == (0.06, 0.02)
    assert [found[1][k] for k in ("expected_error", "distance", "distance_error")] == [None] * 3


@given(
    st.lists(st.sampled_from([2, 60, 300, 900]), min_size=2, max_size=4),
    st.sampled_from([0, 1 << 16]),
)
def test_pairs_are_asked_about_if_the_model_cannot_hold_them(sizes, limit):
    domain = Domain(dict(zip("abcd", sizes)))
    found = dependencies.wide_pairs(domain, {"a"}, limit)
    for a, b in permutations(domain, 2):
        cells = domain[a] * domain[b]
        drawn = b if 2 * domain[b] > domain[a] else a
        wide = cells > FOLLOW_CELLS and (drawn == b or cells > limit)
        assert ((a, b) in found) == (wide and drawn != "a")
    assert sorted((domain.cells(p) for p in found), reverse=True) == [
        domain.cells(p) for p in found
    ]


def test_tables_beside_the_model_improve_the_columns_that_others_are_drawn_from():
    """Rows of value 0 are in two sure cells, of value 1 in one; value 2 has one cell within the
    noise and value 3 none: they share the 10 rows that the cells leave by 2.5 - 1 and 2 - 1 (half
    the threshold)."""
    table = Filtered(
        ("a", "b"), (4, 3), np.array([0, 1, 5, 6]), np.array([30.0, 10.0, 50.0, 2.5]), 1.0, 2.0
    )
    one = Measurement(("a",), np.array([45.0, 43.0, 6.0, 6.0]), 3.0)
    (better,) = DependentColumns([Dependency("b", "a", 0.9)], [table]).better([one])
    beside = np.array([40.0, 50, 6, 4])
    variance = np.array([2 + 16, 1 + 25, 1, 1])
    wanted = (one.values / 9 + beside / variance) / (1 / 9 + 1 / variance)
    assert better.values == pytest.approx(wanted)
    assert better.sigma == pytest.approx(np.sqrt(1 / (1 / 9 + 1 / variance)))
    assert math.erfc(dependencies.sure_rows(table) / math.sqrt(2)) / 2 * 3 == pytest.approx(STRICT)
    ones = [
        Measurement((a,), np.full(n, 100.0), 1.0)
        for a, n in (("a", 9), ("b", 40), ("c", 5), ("d", 3))
    ]
    # The largest other is the root.
    part = dependencies.tables_part([Dependency("b", "a", 1.0)], ones, 1.0)
    assert part / (1 - part) == pytest.approx(
        9 ** (2 / 3) / sum((PAIR_CELLS * n) ** (2 / 3) for n in (3, 5))
    )
    assert (
        dependencies.tables_part([Dependency(x, "a", 1.0) for x in "bcd"], ones, 1.0)
        == 1 - SCREENING
    )


@given(
    st.lists(st.tuples(st.floats(0, 9), st.booleans()), min_size=10, max_size=10), st.integers(2, 3)
)
def test_marginals_of_screened_pairs_join_all_columns(facts, ways):
    """Whatever the strengths: every column is in a set, priors decide which sets have more than two
    columns, and the sets hang together without a circle of pairs."""
    pairs = [
        Candidate(c, 1.0 + strength, 4.0, explained=0.5 * known)
        for c, (strength, known) in zip(combinations(DOMAIN, 2), facts)
    ]
    screened = ScreenedPairs(pairs, None, 0.0)
    sets = screened.outer(DOMAIN, ways, 10**6, StructuralZeros())
    assert set().union(*sets) == set(DOMAIN) and max(map(len, sets)) <= ways
    known = {c.clique for c in pairs if c.explained}
    assert all(
        sum(p in known for p in combinations(sorted(s), 2)) >= len(s) - 1
        for s in sets
        if len(s) > 2
    )
    assert sum(len(s) - 1 for s in sets) >= 4
    tree = screened.tree(DOMAIN, StructuralZeros())
    best = max(
        sum(screened.strength(c) for c in some)
        for some in combinations(pairs, 4)
        if (sets := DisjointSets(DOMAIN))
        and all([sets.merge(*c.clique) for c in some])  # four without a circle
    )
    assert sum(screened.strength(c) for c in tree) == pytest.approx(best)


def test_asked_pairs_explain_as_much_as_the_best_of_them_one_by_one():
    rng = np.random.default_rng(5)
    parts = {pair: float(rng.random()) for pair in permutations("abcde", 2)}

    def follows(a, x):
        return 1.0 if a == x else parts[a, x]

    asked = {}
    explaining = AskedPairs(follows)
    assert explaining.of(("a", "b")) == 0.0
    for a, b in [*combinations("abcde", 2)] * 10:  # more than the first array has places
        distance = float(rng.gamma(2.0, 50.0))
        asked[len(asked)] = (a, b, distance)
        explaining.ask((a, b), distance)
        c, d = rng.permutation(list("abcde"))[:2]
        best = max(
            far * max(follows(c, x) * follows(d, y), follows(c, y) * follows(d, x))
            for x, y, far in asked.values()
        )
        assert explaining.of((c, d)) == pytest.approx(best)
