"""Columns of a dense table that are tied beyond what hidden factors say, and how the tree's last batch
counts in the decision."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.mechanisms.cliquetree import CliqueTree, tied_columns
from fastdp.mechanisms.cliquetree.dense_tables import DenseTable
from fastdp.mechanisms.cliquetree.tree_state import CliqueTreeState
from fastdp.mechanisms.shared.code_partitions import CODES

from .test_dense_tables import correlations, questionnaire, run


@pytest.mark.parametrize("seed", range(4))
def test_a_tied_column_has_the_tables_with_the_class_and_with_its_column(seed):
    """Where the three tables agree, all of them hold. Where they do not, those of the class with the first
    column, and of the two columns, hold all the same."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(5 * 4 * 3)).reshape(5, 4, 3) * 1000
    by_a, by_b, pair = joint.sum(axis=2), joint.sum(axis=1), joint.sum(axis=0)
    made = tied_columns.given_both(by_a, by_b, pair).reshape(5, 4, 3)
    assert np.allclose(made.sum(axis=2), by_a)
    assert np.allclose(made.sum(axis=0), pair, atol=0.5)
    assert np.abs(made.sum(axis=1) - by_b).sum() < 0.01 * 1000
    copied = np.diag(by_a.sum(axis=0))  # b is a, whatever the class says of b
    other = np.outer(by_a.sum(axis=1), by_a.sum(axis=0)) / 1000
    made = tied_columns.given_both(by_a, other, copied).reshape(5, 4, 4)
    assert np.allclose(made.sum(axis=0), copied, atol=1e-6)
    assert np.allclose(made.sum(axis=2), by_a)


def test_ties_are_a_forest_of_what_stands_out_and_fits():
    """The largest differences first; no circle, none within noise, none beyond the room."""
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "e"), ("e", "f"), ("f", "g")]
    away = np.array([90.0, 80.0, 70.0, 30.0, 60.0, 50.0])
    near = np.array([5.0, 5.0, 5.0, 12.0, 5.0, 5.0])
    rest = near, np.full(6, 2.0), [10, 10, 10, 10, 1000, 10], 40
    tied = tied_columns.ties(pairs, away, *rest, lambda a, b: float(a == b))
    assert tied == [("a", "b"), ("b", "c"), ("f", "g")]
    close = tied_columns.ties(pairs, away, *rest, lambda *_: 1.0)
    assert close == [("a", "b")]  # which explains all others where columns follow from each other
    order = tied_columns.in_order("abcdefg", tied)
    assert sorted(own for _, own in order) == list("abcdefg")
    known = set()
    for before, own in order:
        assert before is None or before in known
        known.add(own)
    assert sum(before is not None for before, _ in order) == len(tied)


def with_a_relabelled_copy():
    """A questionnaire, one of whose columns has a copy with other labels: no order tells that they are the
    same, so hidden factors lose it."""
    domain, columns = questionnaire(size=8)
    labels = np.array([3, 6, 0, 5, 1, 7, 4, 2])
    columns["copy"] = labels[columns["c0"]]
    return {**domain, "copy": 8}, columns


def kept(outcome):
    """The part of the rows whose copy is the right one."""
    rows = outcome.rows.some(6000, 1)
    labels = np.array([3, 6, 0, 5, 1, 7, 4, 2])
    return float(np.mean(labels[rows["c0"]] == rows["copy"]))


def test_a_copy_among_dense_columns_stays_a_copy():
    """The planted bug: without ties, four of five copies are lost. Other columns keep their
    correlations."""
    domain, columns = with_a_relabelled_copy()
    session, outcome = run(domain, columns, mu=0.6)
    assert outcome.model.ended == "hidden factors"
    assert outcome.details["hidden_factors"]["tied"] >= 1
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)
    assert kept(outcome) > 0.8
    others = [a for a in domain if a != "copy"]
    rows = outcome.rows.some(6000, 1)
    made, true = (correlations({a: c[a] for a in others}) for c in (rows, columns))
    assert np.abs(made - true).mean() < 0.03
    with patch.object(DenseTable, "tie", lambda *_: None):
        _, without = run(domain, columns, mu=0.6)
    assert without.model.ended != "hidden factors" or kept(without) < 0.5


def test_a_tied_model_answers_and_conditions_as_any_other():
    """Its marginals are those of its rows, and conditioning on one column moves the tied one."""
    domain, columns = with_a_relabelled_copy()
    _, outcome = run(domain, columns, mu=0.6)
    rows = outcome.rows.some(40_000, 1)
    table = outcome.model.marginal(("c0", "copy")).reshape(8, 8)
    drawn = np.histogram2d(rows["c0"], rows["copy"], bins=[np.arange(9), np.arange(9)])[0]
    assert np.abs(table / table.sum() - drawn / drawn.sum()).sum() / 2 < 0.03


def test_what_answers_miss_is_learnt_from_released_distances():
    """A pair whose cells noise hides is farther off than the noise of its cells says. The last batch then
    gives it more. The planted bug: without learning it gets what was foreseen."""
    rng = np.random.default_rng(5)
    rows = 3000
    first = rng.integers(0, 24, rows)
    columns = {"a": first, "b": rng.permutation(24)[first]}
    columns |= {
        f"c{i}": np.where(rng.random(rows) < 0.5, first % 3, rng.integers(0, 3, rows))
        for i in range(4)
    }
    domain = {a: 24 if a in "ab" else 3 for a in columns}

    def precision(learn=CliqueTreeState.learn):
        with patch.object(CliqueTreeState, "learn", learn):
            session, _ = run(domain, columns, mu=0.5, config=CliqueTree(screening_rounds=2))
        assert session.spent == pytest.approx(session.mu**2, rel=1e-9)
        parts = {}
        for request in session.asked:
            if len(request.clique) > 1:
                parts[request.clique] = parts.get(request.clique, 0.0) + request.mu**2
        return parts["a", "b"] / sum(parts.values())

    learnt = precision()
    foreseen = precision(lambda *_: None)
    assert learnt > 1.1 * foreseen


def test_the_tree_is_compared_as_it_will_be_with_its_last_batch():
    """What answers miss falls with the root of their precision: half of it would be left with four times the
    precision. Pairs that were not measured stay as far as they are."""
    keys = [(("a", "b"), CODES), (("b", "c"), CODES)]
    state = SimpleNamespace(
        precision=dict.fromkeys(keys, 0.1), missed=lambda _: {keys[0]: 40.0, keys[1]: 90.0}
    )
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]
    result = SimpleNamespace(cliques=cliques, distances=[40.0, -3.0, 70.0, 9.0])
    after = CliqueTreeState.after_batch(state, 0.6, result)
    assert after == pytest.approx({("a", "b"): 20.0, ("b", "c"): -3.0, ("a", "c"): 70.0})
