"""MST: merged rare values, the tree, what it costs; and its quality on a real table where that is at hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.domain import Domain
from fastdp.mechanisms import mst
from fastdp.mechanisms.aim import AIM
from fastdp.mechanisms.base import Job
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.shared import one_ways, spanning_tree
from fastdp.model.adjust import onto_simplex
from fastdp.privacy.accountant import BoundedRange, mu_of
from tests.mechanisms.fakes import FakeModel, FakeSession

from .growing import RowsSession, dependent_rows, job_of


def chain(rows=4000, seed=0):
    """a - b - c - d in a chain of strong dependence."""
    joint = np.zeros((4, 4, 4, 4), np.int64)
    np.add.at(joint, tuple(dependent_rows(rows, 4, seed=seed)[1].values()), 1)
    return FakeSession(dict.fromkeys("abcd", 4), joint, mu=2.0)


def run(session, **fields):
    kept = {}

    def fit(domain, measurements, **options):
        kept.update(measurements=measurements)
        return FakeModel(1.0)

    return mst.MST(**fields).run(session, Job(schema=session.schema, epsilon=1.0, fit=fit)), kept


def test_the_tree_of_a_chain_is_the_chain_and_costs_the_budget():
    outcome, kept = run(chain())
    assert sorted(map(tuple, outcome.details["tree"])) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert len(kept["measurements"]) == 7
    session = chain()
    run(session)
    cost = sum(mu_of(BoundedRange(r)) ** 2 if isinstance(r, float) else r.mu**2 for r in session.asked)
    assert session.mu**2 * 0.999 < cost <= session.mu**2 * (1 + 1e-12)


def test_rare_values_are_merged_when_pairs_are_measured():
    joint = np.zeros((6, 6), np.int64)
    joint[0, 1], joint[1, 0], joint[5, 5] = 500, 400, 1
    outcome, kept = run(FakeSession({"a": 6, "b": 6}, joint, mu=2.0))
    sizes = [m.values.size for m in kept["measurements"]]
    assert sizes == [3, 3, 9]
    assert outcome.tables["codes"].num_rows == 12


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=20), st.floats(0, 100))
@settings(max_examples=100, deadline=None)
def test_the_simplex_projection_is_the_nearest_point(values, total):
    values = np.array(values)
    nearest = onto_simplex(values, total)
    assert (nearest >= 0).all()
    assert math.isclose(nearest.sum(), total, abs_tol=1e-6)
    # Optimal: what is above zero moved by one common amount, what is at zero would have moved below it.
    moved = values[nearest > 0] - nearest[nearest > 0]
    if moved.size:
        assert np.ptp(moved) < 1e-6
        assert (values[nearest == 0] <= moved[0] + 1e-6).all()


def test_pairs_too_large_leave_a_forest_and_one_column_needs_no_tree(monkeypatch):
    monkeypatch.setattr(spanning_tree, "MAX_PAIR_CELLS", 20)
    session = FakeSession({"a": 4, "b": 4, "c": 10}, np.ones((4, 4, 10), np.int64))
    ones = one_ways.measure_ones(session, 0.5)
    assert spanning_tree.spanning_tree(session, ones, 0.5) == [("a", "b"), ("c",)]
    outcome, kept = run(FakeSession({"a": 5}, np.arange(5), mu=1.0))
    assert outcome.details["tree"] == []
    assert len(kept["measurements"]) == 1


# Mechanisms that merge rare codes release which codes were merged, and only where any were.


@pytest.mark.parametrize("config", [AIM(rounds=6), MST(), CliqueTree()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("crowded", [True, False])
def test_a_table_of_codes_is_released_where_the_model_has_fewer(config, crowded):
    """Columns of 40 codes of which 3 occur, or of 3 codes."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 3, 3000)
    rows = np.stack([first, (first + (rng.random(3000) < 0.1)) % 3, rng.integers(0, 3, 3000)], 1)
    domain = Domain(dict.fromkeys("abc", 40 if crowded else 3))
    session = RowsSession(domain, dict(zip("abc", rows.T)), mu=1.0)

    outcome = config.run(session, job_of(session))
    merged = dict(outcome.model.domain) != dict(domain)
    assert merged == crowded == ("codes" in outcome.tables)
    if merged:
        codes = outcome.tables["codes"]
        assert sum(outcome.model.domain.values()) < 120 and len(codes) > 0


# AIM: what it spends, what it picks, how its weights add up.


def run_aim(session, **fields):
    return AIM(**fields).run(session, job_of(session))


@pytest.mark.parametrize("mu", [0.1, 2.0])
def test_aim_spends_the_budget_and_never_exceeds_it(mu):
    domain, rows = dependent_rows(columns=5)
    session = RowsSession(domain, rows, mu=mu)
    outcome = run_aim(session, rounds=10)
    assert mu**2 * (1 - 1e-6) < session.spent <= mu**2 * (1 + 1e-9)
    assert outcome.details["rounds"]


def test_it_measures_what_depends():
    domain, rows = dependent_rows(columns=5)
    outcome = run_aim(RowsSession(domain, rows, mu=3.0), rounds=10)
    joined = {frozenset(c) for c in outcome.details["rounds"]}
    assert all(any({f"c{i}", f"c{i + 1}"} <= c for c in joined) for i in range(4))


def test_weights_are_columns_in_common_with_the_workload():
    domain = Domain(dict.fromkeys("abcd", 2))
    weights = AIM(workload=(("a", "b"), ("b", "c", "d"))).closure(domain)
    assert (
        weights["b",] == 2 and weights["a",] == 1 and weights["a", "b"] == 3 and weights["b", "c", "d"] == 4
    )
    assert ("a", "c") not in weights
    assert len(AIM(degree=3).closure(domain)) == 4 + 6 + 4
