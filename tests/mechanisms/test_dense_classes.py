"""Dense tables of hidden classes: when classes take the place of the clique tree, and what that costs."""

import math
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.mechanisms.cliquetree import CliqueTree, dense_classes, dense_tables
from tests.tiers import slow_cases

from .growing import RowsSession, job_of

FEW = CliqueTree(max_cells=10_000)  # fits of larger trees would take most of the time


def classes(rows=8000, columns=14, hidden=3, size=5, seed=0):
    """Columns that depend on each other by a hidden class alone."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, hidden, rows)
    names = [f"c{i}" for i in range(columns)]
    made = {}
    for a in names:
        ends = rng.dirichlet([0.5] * size, hidden).cumsum(axis=1)
        made[a] = (rng.random((rows, 1)) > ends[own, :-1]).sum(axis=1)
    return dict.fromkeys(names, size), made


def run(domain, columns, mu=0.5):
    session = RowsSession(domain, columns, mu=mu, seed=4)
    return session, FEW.run(session, job_of(session))


def off(session, rows):
    """Mean total variation of all pairs."""
    drawn = RowsSession(session.domain, rows)
    names = list(session.domain)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    apart = [np.abs(session.marginal(p) - drawn.marginal(p)).sum() for p in pairs]
    return np.mean(apart) / 2 / len(session.columns[names[0]])


@pytest.fixture(scope="module")
def dense():
    domain, columns = classes()
    return run(domain, columns)


def test_classes_are_nearer_to_the_truth_than_the_tree(dense):
    session, outcome = dense
    assert outcome.model.ended == "hidden classes"
    assert outcome.details["hidden_factors"]["classes"] in (3, 4)
    with patch.object(dense_tables, "by_classes", lambda *_: (None, 0.0)):
        _, tree = run(session.domain, session.columns)
    assert tree.model.ended != "hidden classes"
    rows = len(session.columns["c0"])
    assert off(session, outcome.rows.some(rows, 1)) < 0.8 * off(session, tree.rows.some(rows, 1))


def test_all_of_the_budget_is_spent_and_each_release_is_told(dense):
    """All tables of pairs are among the measurements, for answers."""
    session, outcome = dense
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)
    asked = ["contrasts", "contrasts of hidden classes", "pairs of hidden classes"]
    asked += ["distances of hidden classes", "pairs of hidden classes again"]
    assert [step for step in session.steps if step in asked] == asked
    told = {m.clique for m in outcome.measurements if m.label == "pairs of hidden classes"}
    assert len(told) == 14 * 13 // 2
    assert list(outcome.rows.some(10, 1)) == list(session.domain)


def test_classes_that_are_farther_than_the_tree_are_given_up():
    """The rest of the batch goes to the tree. The planted bug: rows of the classes all the same."""
    domain, columns = classes()
    real = dense_tables.distance

    def far(state, model, pairs, matters, *label):
        found = real(state, model, pairs, matters, *label)
        return (math.inf, 0.0) if label else found

    with patch.object(dense_tables, "distance", far):
        session, outcome = run(domain, columns)
    assert outcome.model.ended != "hidden classes"
    assert "pairs of hidden classes again" not in session.steps
    assert outcome.details["batches"][-1]
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)


def test_tables_whose_fit_would_take_minutes_stay_a_tree():
    domain, columns = classes(rows=4000)
    with patch.object(dense_classes, "MOST_CODES", 69):  # of 14 columns of five
        session, outcome = run(domain, columns)
    assert "contrasts of hidden classes" not in session.steps
    assert outcome.model.ended != "hidden classes"


@pytest.mark.parametrize("seed", [1, *slow_cases(2, 3, 4)])
def test_columns_that_repeat_one_column_stay_a_tree(seed):
    """A tree holds them all: each pair follows from two others."""
    rng = np.random.default_rng(seed)
    common = rng.integers(0, 5, 8000)
    names = [f"c{i}" for i in range(14)]
    made = {a: np.where(rng.random(8000) < 0.97, rng.permutation(5)[common], 0) for a in names}
    session, outcome = run(dict.fromkeys(names, 5), made)
    assert "pairs of hidden classes again" not in session.steps
    assert outcome.model.ended != "hidden classes"
